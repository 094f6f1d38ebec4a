// SlotSums: adds the gradients of several slots on a worker, along the job's reduction tree.
//
// Kind:   owned by one thread.
// Limits: about log2(slots) gradient buffers, plus one for each of the fewest nodes that cover the slots.
// Why:    a worker whose slots form a node of the tree pushes that node once. This sends fewer bytes and gives the same
//         bits as pushing every slot by itself.
//
// Use, per slot in order: BeginSlot(samples, gradient); RangeReady(...) for every range of elements once its gradient
// is final. After the last slot's RangeReady(range), that range is final in every part of parts() and can be pushed.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/buffer.h"
#include "common/data/reduction_tree.h"

namespace capstan::client {

class SlotSums {
 public:
  // What a worker pushes for a node. For a leaf, `gradient` is the mean over its samples. For an inner node it is the
  // sum over the leaves of mean * samples.
  struct PartialSum {
    Node node;
    std::uint64_t samples = 0;
    BufferRef gradient;  // null when samples is 0
  };

  // `slots`, sorted and distinct, are leaves of `tree`.
  SlotSums(std::vector<SlotIndex> slots, const ReductionTree& tree);

  const std::vector<SlotIndex>& slots() const { return slots_; }
  // Begins the next slot, whose gradient (mean over its samples) will be written to `gradient`.
  void BeginSlot(std::uint64_t samples, BufferRef gradient);
  // Notes that elements [first, first + count) of the current slot are final.
  void RangeReady(std::uint64_t first, std::uint64_t count);
  bool at_last_slot() const { return next_ == slots_.size(); }
  const std::vector<PartialSum>& parts() const { return parts_; }

 private:
  struct Addition {  // target = target * target_scale + source * source_scale
    BufferRef target, source;
    float target_scale = 1.0F, source_scale = 1.0F;
  };
  void MergeTop();
  static float ScaleOf(const PartialSum& part);

  std::vector<SlotIndex> slots_;
  ReductionTree tree_;
  std::vector<Node> cover_;
  std::size_t next_ = 0;
  std::vector<PartialSum> parts_;
  std::vector<Addition> additions_;  // to do for each final range of the current slot
};

}  // namespace capstan::client
