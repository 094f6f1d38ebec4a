// StagedBlock: the contributions to one block in the step under way.
//
// Kind:   owned by the Shard.
// Limits: at most ceil(slots / 2) payloads are held, but 2 of 2 slots: siblings are added as soon as both are there,
//         the children of the root by the update.
// Fails:  kInvalid: another sample count for a node already seen.
// Why:    nodes may arrive in any order, twice, and from several workers; what is held is always a set of
//         disjoint nodes of the reduction tree, and their sum does not depend on the way there (PROTOCOL.md 3.3).
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/data/reduction_tree.h"
#include "update/block_update.h"

namespace capstan::server {

class StagedBlock {
 public:
  enum class Outcome { kStaged, kAlreadyHeld, kMismatch };

  // Takes a node in. `sums` supplies buffers for sums of siblings; `count` is the block's element count.
  // kMismatch: an equal node came with another payload; the first is kept.
  Result<Outcome> Add(Node node, std::uint64_t samples, std::uint64_t payload_hash, Slice payload, Encoding encoding,
                      SlotIndex slot_count, std::uint32_t count, BufferPool* sums);

  bool complete() const { return complete_; }
  // Samples of all slots; meaningful when complete.
  std::uint64_t samples() const;
  // The disjoint nodes held, from left to right, in the form that ReduceAndUpdate takes.
  std::vector<StagedInput> Inputs() const;
  std::vector<Node> nodes() const;

  // The sum has been taken: payloads go, coverage stays.
  void ReleasePayloads();
  // Forgets everything, for the next step. Keeps its memory.
  void Clear();
  std::uint64_t payload_bytes() const;

 private:
  struct Held {
    Node node;
    std::uint64_t samples = 0;
    Slice payload;  // empty when samples is 0
    Encoding encoding = Encoding::kFp32;
    bool pooled = false;  // the payload is a sum of ours, not a received frame

    StagedInput Input() const { return {node, samples, samples == 0 ? nullptr : payload.data, encoding}; }
  };
  struct Seen {  // every node received in this step, for comparison with a second copy
    Node node;
    std::uint64_t samples = 0;
    std::uint64_t payload_hash = 0;
  };

  Result<Outcome> CompareWithSeen(Node node, std::uint64_t samples, std::uint64_t payload_hash) const;
  void Insert(Held held);
  void MergeAround(Node node, SlotIndex slot_count, std::uint32_t count, BufferPool* sums);
  static Held Merge(const Held& left, const Held& right, std::uint32_t count, BufferPool* sums);

  std::vector<Held> held_;  // disjoint, sorted
  std::vector<Seen> seen_;
  bool complete_ = false;
};

}  // namespace capstan::server
