// SlotSums: adds the gradients of several slots on a worker, along the job's reduction tree.
//
// Kind:   owned by one thread.
// Limits: holds about log2(slots) + (nodes of the cover) gradient buffers.
// Why:    a worker with slots that form a node of the tree pushes the node once: less traffic, and the same bits as if
//         every slot had been pushed by itself (PROTOCOL.md 3.2, 3.3).
//
// Use, per slot in order: BeginSlot(samples, gradient); RangeReady(...) for every range of elements once its gradient
// is final. Within the last slot's RangeReady a range of every part() is final too, and can be pushed.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/buffer.h"
#include "common/data/reduction_tree.h"

namespace capstan::client {

class SlotSums {
 public:
  // What is pushed: a leaf's mean gradient, or the sum of the values of a node's leaves.
  struct Part {
    Node node;
    std::uint64_t samples = 0;
    BufferRef gradient;  // null when samples is 0
  };

  // `slots` sorted, distinct.
  SlotSums(std::vector<SlotIndex> slots, SlotIndex slot_count);

  const std::vector<SlotIndex>& slots() const { return slots_; }
  // The next slot's gradient (mean over its samples) will be written to `gradient`.
  void BeginSlot(std::uint64_t samples, BufferRef gradient);
  // Elements [first, first + count) of the slot under way are final.
  void RangeReady(std::uint64_t first, std::uint64_t count);
  bool at_last_slot() const { return next_ == slots_.size(); }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  struct Addition {  // target = target * target_scale + source * source_scale
    BufferRef target, source;
    float target_scale = 1.0F, source_scale = 1.0F;
  };
  void MergeTop();
  static float ScaleOf(const Part& part);

  std::vector<SlotIndex> slots_;
  SlotIndex slot_count_;
  std::vector<Node> cover_;
  std::size_t next_ = 0;
  std::vector<Part> parts_;
  std::vector<Addition> additions_;  // of the slot under way
};

}  // namespace capstan::client
