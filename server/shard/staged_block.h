// StagedBlock: the gradients for one block that have arrived in the current step: nodes of the reduction tree.
//
// Kind:   owned by the Shard.
// Limits: at most ceil(slots / 2) payloads, and 2 for 2 slots: siblings are added as soon as both are there, except the
//         two children of the root, which the update adds. If the job's aggregation adds nothing: one per slot.
// Why:    nodes may arrive in any order, twice, and from several workers. The staged nodes are always disjoint, and the
//         bits of their sum do not depend on the order of arrival. What came first counts.
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
  enum class Outcome {
    kStaged,
    kAlreadyStaged,
    kMismatch,  // already staged, but the same node came before with another payload
    kDisagrees  // already staged, but the node or what it consists of came before with another number of samples
  };
  struct Added {
    Outcome outcome = Outcome::kStaged;
    SessionId first;        // kMismatch, kDisagrees: who sent the copy that counts; 0: several sessions did
    std::uint64_t had = 0;  // kDisagrees: the number of samples that counts
  };
  // A node that a session pushed, with its checked payload. A payload that the update has been made from is left out.
  struct Pushed {
    SessionId session;
    Node node;
    std::uint64_t samples = 0;
    std::uint64_t payload_hash = 0;
    Slice payload;
    Encoding encoding = Encoding::kFp32;
  };

  // Whether a staged node has all slots of this one, so that Add() changes nothing.
  bool Covers(Node node) const;
  // Stages a node, and drops the staged nodes inside it. `sums` supplies buffers for sums of siblings; `count` is the
  // block's element count.
  Added Add(Pushed pushed, const ReductionTree& tree, std::uint32_t count, BufferPool* sums);

  bool complete() const { return complete_; }
  // Samples of all slots; meaningful when complete.
  std::uint64_t samples() const;
  // The staged nodes from left to right, as ReduceAndUpdate takes them.
  std::vector<StagedInput> Inputs() const;
  // The same with one node more, if all staged nodes are then needed, and no others: empty if slots are missing, if the
  // node has slots of staged nodes, or if Add() would add it to its sibling.
  std::vector<StagedInput> InputsWith(const StagedInput& last, const ReductionTree& tree) const;
  std::vector<Node> nodes() const;

  // Drops the payloads, once the sum is computed, but remembers which nodes were staged.
  void ReleasePayloads();
  // Forgets everything, for the next step. Keeps its memory.
  void Clear();
  std::uint64_t payload_bytes() const;

 private:
  struct Contribution {
    Node node;
    std::uint64_t samples = 0;
    Slice payload;  // empty when samples is 0, and if the update has been made from it
    Encoding encoding = Encoding::kFp32;
    bool pooled = false;  // the payload is a sum made here, not a received frame

    StagedInput Input() const { return {node, samples, samples == 0 ? nullptr : payload.data, encoding}; }
  };
  struct Seen {  // a node that arrived in this step, for comparison with a second copy
    SessionId session;
    Node node;
    std::uint64_t samples = 0;
    std::uint64_t payload_hash = 0;
  };

  // Compares a node that is staged already with what came before.
  Added Compare(const Pushed& pushed) const;
  void Insert(Contribution contribution);
  void MergeAround(Node node, const ReductionTree& tree, std::uint32_t count, BufferPool* sums);
  static Contribution Merge(const Contribution& left, const Contribution& right, std::uint32_t count, BufferPool* sums);

  std::vector<Contribution> contributions_;  // disjoint, sorted
  std::vector<Seen> seen_;
  bool complete_ = false;
};

}  // namespace capstan::server
