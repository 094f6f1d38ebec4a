// BlockStore: the versions of a shard's blocks: weights and optimizer state, published and under construction.
//
// Kind:   owned by the Shard.
// Limits: per parameter 4 * (1 + states) bytes published, as many under construction, and 4 for the kept sum. If
//         weights travel as 16-bit numbers, 2 more for each version. Older versions that messages or snapshots still
//         refer to need more.
// Why:    a version that a message or a snapshot refers to is not written again. With global steps, step k builds
//         version k+1 in other buffers and publishes it by swapping references.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/hash.h"
#include "common/data/catalog.h"
#include "server/storage/block_arrays.h"
#include "update/block_update.h"

namespace capstan::server {

class BlockStore {
 public:
  enum class Begin { kVersion0, kToBeLoaded };

  // `blocks`: this shard's blocks, in catalog order. `rule` determines how many states a block has (KeptStates). With
  // kVersion0, weights are computed from the seed and optimizer states are 0; with kToBeLoaded, the caller fills the
  // buffers of Arrays(). `encoding`: the job's, for weights that workers pull and gradients that they push.
  BlockStore(const Catalog& catalog, std::vector<BlockIndex> blocks, const OptimizerRule& rule, std::uint64_t seed,
             Begin begin = Begin::kVersion0, Encoding encoding = Encoding::kFp32,
             const std::shared_ptr<SharedMemory>& memory = nullptr);

  // Takes the memory of so many further versions of all blocks, and with `sums` that of their gradients' sums.
  void Reserve(std::size_t versions, bool sums);

  std::size_t size() const { return blocks_.size(); }
  const std::vector<BlockIndex>& blocks() const { return indices_; }
  std::uint32_t count(std::size_t index) const { return blocks_[index].count; }
  // The number of segments in a block. Prepare() and ApplyNow() write one sum of squares for each segment.
  std::size_t segment_count(std::size_t index) const { return blocks_[index].segments.size(); }

  // Builds a block's next version from `cover`: disjoint nodes that cover all slots. Writes one sum of squares per
  // segment and, for lars and lamb, fills `trust`. `rules`: by group, or a single one if there are no groups. `likely`:
  // whether the version will probably be published; what workers pull of it is then made in the same pass. Returns
  // false, and prepares nothing, if an input did not pass its check.
  bool Prepare(std::size_t index, std::span<const StagedInput> cover, const ReductionTree& tree,
               std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<double> squares,
               const TrustSquares& trust = {}, bool likely = true);
  // Builds a prepared block's next version again, from the gradient sum that Prepare() kept. `scalars` has the clip
  // factor or the trust ratios.
  void PrepareAgain(std::size_t index, std::span<const GroupRule> rules, const UpdateScalars& scalars,
                    const TrustSquares& trust = {}, bool likely = true);
  // Publishes the next version of every prepared block.
  void PublishPrepared();
  // Drops all prepared versions.
  void DropPrepared();
  bool is_prepared(std::size_t index) const { return static_cast<bool>(blocks_[index].next.weights); }
  // Updates the published version of a block with one push. An array to which a message or a snapshot refers is not
  // changed: the new values go to another buffer. If the input has a check, all arrays go to other buffers. Returns
  // false, and changes nothing, if the check does not pass.
  bool ApplyNow(std::size_t index, const StagedInput& input, std::span<const GroupRule> rules,
                const UpdateScalars& scalars, std::span<double> squares);

  // Copies an array (weights or an optimizer state) of a block's next version, which a worker computed, unless that
  // array has arrived already. Returns whether the next version now has all its arrays.
  bool PutNext(std::size_t index, std::uint32_t array, std::span<const std::byte> values);

  // Writes initial weights that a worker sent into version 0, in place. Requires that no message or snapshot refers to
  // the block's weights yet. `offset`: in elements.
  void SetInitialWeights(std::size_t index, std::uint32_t offset, std::span<const std::byte> values);

  // The encoding in which workers pull the block's weights and push its leaf gradients.
  Encoding encoding(std::size_t index) const { return blocks_[index].encoding; }
  // The published weights.
  Slice Weights(std::size_t index) const { return Arrays(index)[0]; }
  // Weights that can be sent without copying, with their XXH3-64. `encoding`: kFp32 or the block's own. Weights do not
  // change while `values` refers to them, even if their step is redone or skipped.
  struct Sendable {
    Slice values;
    std::uint64_t hash = 0;
  };
  Sendable ToSend(std::size_t index, Encoding encoding);
  Sendable PreparedToSend(std::size_t index, Encoding encoding);
  // The same for a published optimizer state; `state` counts from 0.
  Sendable StateToSend(std::size_t index, std::uint32_t state);
  // The published weights and optimizer states of a block. Updates do not change an array while such a slice refers to
  // it.
  std::array<Slice, kBlockArraysMax> Arrays(std::size_t index) const;
  std::uint32_t array_count() const { return 1 + static_cast<std::uint32_t>(states_); }

  // Computes the XXH3-64 of the published weights and states of all blocks.
  std::uint64_t Digest() const;
  BufferPool* pool() { return &pool_; }
  std::uint64_t pool_bytes() const {
    return pool_.allocated_bytes() + weights_pool_.allocated_bytes() + narrow_pool_.allocated_bytes();
  }
  std::uint64_t pool_used_bytes() const {
    return pool_.in_use_bytes() + weights_pool_.in_use_bytes() + narrow_pool_.in_use_bytes();
  }
  // The size of the published weights, as fp32.
  std::uint64_t parameter_bytes() const;
  std::uint64_t optimizer_bytes() const { return parameter_bytes() * static_cast<std::uint64_t>(states_); }

 private:
  static constexpr int kStatesMax = kBlockArraysMax - 1;
  struct BlockVersion {
    BufferRef weights;
    BufferRef state[kStatesMax];
    std::optional<std::uint64_t> weights_hash;  // set once it is computed
    std::optional<std::uint64_t> state_hash[kStatesMax];
    BufferRef narrow;  // the weights in the block's 16-bit encoding, once computed
    std::uint64_t narrow_hash = 0;

    // Call when the arrays have changed.
    void ForgetHashes();
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
  // What ToSend() needs (the hash, and the 16-bit encoding if the block has one) is made by the pass that writes the
  // weights, between these two calls.
  WeightsToSend BeginToSend(const Entry& entry, BlockVersion* version, Hasher* hasher);
  static void FinishToSend(const Entry& entry, BlockVersion* version, const Hasher& hasher);
  Sendable ToSend(const Entry& entry, BlockVersion* version, Encoding encoding);
  static void HashWeights(const Entry& entry, BlockVersion* version);
  void Narrow(const Entry& entry, BlockVersion* version);
  BlockIn In(const BlockVersion& version) const;
  BlockOut Out(const BlockVersion& version, const BufferRef& sum) const;

  int states_;
  WritePath path_ = WritePath::kCached;  // how a step's new version is written
  BufferPool pool_, weights_pool_, narrow_pool_;
  std::vector<BlockIndex> indices_;
  std::vector<Entry> blocks_;
};

}  // namespace capstan::server
