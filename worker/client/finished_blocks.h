// FinishedBlocks: counts, for each block, the segments of a slot's gradient that are not final yet.
//
// Kind:   owned by the application's thread.
// Fails:  Take: kInvalid when a tensor is named again. Counted twice, it would make a block final too early.
// Why:    a backward pass finishes tensors, but blocks are sent. A block is final when all its segments are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"

namespace capstan::client {

class FinishedBlocks {
 public:
  // Starts a slot: no segment is final.
  void Begin(const Catalog& catalog) {
    final_.assign(catalog.tensors().size(), false);
    missing_.clear();
    for (const Block& block : catalog.blocks()) missing_.push_back(block.segment_count);
  }

  // Notes that tensors [first, last] are final. Calls finished(block) for each block that they complete, in descending
  // order. If one of them is final already, notes nothing.
  template <class F>
  Status Take(const Catalog& catalog, TensorIndex first, TensorIndex last, const F& finished) {
    for (TensorIndex tensor = first; tensor <= last; ++tensor) {
      if (final_[tensor]) return NamedTwice(catalog.tensors()[tensor].name);
    }
    // Each tensor has one segment in every block from its first to its last.
    for (TensorIndex tensor = last + 1; tensor-- > first;) {
      final_[tensor] = true;
      for (BlockIndex block = catalog.last_block(tensor) + 1; block-- > catalog.first_block(tensor);) {
        if (missing_[block] > 0 && --missing_[block] == 0) finished(block);
      }
    }
    return {};
  }

  // Notes that all tensors are final. Calls finished(block) for each block that was not final yet.
  template <class F>
  void TakeRest(const F& finished) {
    for (auto block = static_cast<BlockIndex>(missing_.size()); block-- > 0;) {
      if (std::exchange(missing_[block], 0) > 0) finished(block);
    }
  }

 private:
  static Status NamedTwice(const std::string& name) {
    return Invalid("tensor \"" + name +
                   "\" is named twice in one slot, and its gradient may have been sent after the "
                   "first time; name each tensor once in a slot, when nothing more is added to its gradient");
  }

  std::vector<bool> final_;             // by tensor
  std::vector<std::uint32_t> missing_;  // segments that are not final, by block
};

}  // namespace capstan::client
