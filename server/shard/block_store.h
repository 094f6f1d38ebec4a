// BlockStore: the versions of a shard's blocks: weights and optimizer state, published and under construction.
//
// Kind:   owned by the Shard.
// Limits: per parameter 4 * (1 + states) bytes published, as many under construction, and 4 for the kept sum. If
//         weights travel as 16-bit numbers, 2 more for each version.
// Why:    a published version is never written again: replies and snapshots have references to it. Step k builds
//         version k+1 in other buffers and publishes it by swapping references.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/buffer.h"
#include "common/data/catalog.h"
#include "server/storage/block_arrays.h"
#include "update/block_update.h"

namespace capstan::server {

class BlockStore {
 public:
  enum class Begin { kVersion0, kToBeLoaded };

  // `blocks`: this shard's blocks, in catalog order; `rule` determines their states. Weights of version 0 are computed
  // from the seed, and optimizer states are 0. With kToBeLoaded nothing is filled in; the caller writes into Arrays().
  // `encoding`: how workers pull weights.
  BlockStore(const Catalog& catalog, std::vector<BlockIndex> blocks, const OptimizerRule& rule, std::uint64_t seed,
             Begin begin = Begin::kVersion0, Encoding encoding = Encoding::kFp32);

  std::size_t size() const { return blocks_.size(); }
  const std::vector<BlockIndex>& blocks() const { return indices_; }
  std::uint32_t count(std::size_t index) const { return blocks_[index].count; }
  // The number of segments in a block. Prepare writes one sum of squares for each of them, and reports list the sums in
  // catalog order.
  std::size_t segment_count(std::size_t index) const { return blocks_[index].segments.size(); }

  // Builds the next version of a block from its contributions; writes one sum of squares per segment, and fills
  // `trust`. `rules`: one for each group of the catalog, or one for all.
  void Prepare(std::size_t index, std::span<const StagedInput> cover, SlotIndex slots, std::span<const GroupRule> rules,
               const UpdateScalars& scalars, std::span<double> squares, const TrustSquares& trust = {});
  // Builds the next version again from the kept sum, with a clip factor or trust ratios.
  void PrepareAgain(std::size_t index, std::span<const GroupRule> rules, const UpdateScalars& scalars,
                    const TrustSquares& trust = {});
  // Publishes the next version of every prepared block.
  void PublishPrepared();
  // Drops all prepared versions.
  void DropPrepared();
  bool is_prepared(std::size_t index) const { return static_cast<bool>(blocks_[index].next.weights); }
  // Updates one block from one contribution; in place if no other reference to its version exists.
  void ApplyNow(std::size_t index, const StagedInput& input, std::span<const GroupRule> rules,
                const UpdateScalars& scalars, std::span<double> squares);

  // Takes an array of a block's next version from a worker, unless that array has arrived already. Returns whether the
  // block now has all its arrays.
  bool PutNext(std::size_t index, std::uint32_t array, std::span<const std::byte> values);

  // Writes initial weights that a worker sent into version 0, in place. Requires that version 0 has not been read yet.
  void SetInitialWeights(std::size_t index, std::uint32_t offset, std::span<const std::byte> values);

  // The job's encoding of a block's weights and of its leaves' gradients.
  Encoding encoding(std::size_t index) const { return blocks_[index].encoding; }
  // The published weights.
  Slice Weights(std::size_t index) const { return Arrays(index)[0]; }
  // Weights that can be sent without copying, with their XXH3-64. `encoding`: kFp32 or the block's own. A reference to
  // prepared weights keeps them unchanged, even if the step is redone or skipped.
  struct Sendable {
    Slice values;
    std::uint64_t hash = 0;
  };
  Sendable ToSend(std::size_t index, Encoding encoding);
  Sendable PreparedToSend(std::size_t index, Encoding encoding);
  // The published weights and states of a block. A reference to them keeps them unchanged by later updates.
  std::array<Slice, kBlockArraysMax> Arrays(std::size_t index) const;
  std::uint32_t array_count() const { return 1 + static_cast<std::uint32_t>(states_); }

  // Computes the XXH3 of all blocks' weights and states.
  std::uint64_t Digest() const;
  BufferPool* pool() { return &pool_; }
  std::uint64_t pool_bytes() const { return pool_.allocated_bytes() + narrow_pool_.allocated_bytes(); }
  std::uint64_t pool_used_bytes() const { return pool_.in_use_bytes() + narrow_pool_.in_use_bytes(); }
  // The size of the published version's weights.
  std::uint64_t parameter_bytes() const;
  std::uint64_t optimizer_bytes() const { return parameter_bytes() * static_cast<std::uint64_t>(states_); }

 private:
  static constexpr int kStatesMax = kBlockArraysMax - 1;
  struct BlockVersion {
    BufferRef weights;
    BufferRef state[kStatesMax];
    std::optional<std::uint64_t> weights_hash;  // set once it is computed
    BufferRef narrow;                           // the weights in the block's 16-bit encoding, once computed
    std::uint64_t narrow_hash = 0;
  };
  struct Entry {
    std::uint32_t count = 0;
    Encoding encoding = Encoding::kFp32;
    std::vector<SegmentRange> segments;
    BlockVersion published, next;
    std::uint32_t next_arrays = 0;  // one bit for each array of `next` that a worker has uploaded
    BufferRef sum;
  };

  BlockVersion TakeVersion();
  // Encodes and hashes weights that were just written, while they are in the cache.
  void MakeSendable(const Entry& entry, BlockVersion* version);
  Sendable ToSend(const Entry& entry, BlockVersion* version, Encoding encoding);
  static void HashWeights(const Entry& entry, BlockVersion* version);
  void Narrow(const Entry& entry, BlockVersion* version);
  BlockIn In(const BlockVersion& version) const;
  BlockOut Out(const BlockVersion& version, const BufferRef& sum) const;

  int states_;
  WritePath path_ = WritePath::kCached;  // how a step's new version is written
  BufferPool pool_, narrow_pool_;
  std::vector<BlockIndex> indices_;
  std::vector<Entry> blocks_;
};

}  // namespace capstan::server
