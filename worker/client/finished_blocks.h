// FinishedBlocks: counts, for each block, the segments of a slot's gradient that are not final yet.
//
// Kind:   owned by the application's thread.
// Why:    a backward pass finishes tensors, but blocks are sent. A block is final when all its segments are.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/data/catalog.h"

namespace capstan::client {

class FinishedBlocks {
 public:
  // Starts a slot: no segment is final.
  void Begin(const Catalog& catalog) {
    missing_.clear();
    for (const Block& block : catalog.blocks()) missing_.push_back(block.segment_count);
  }

  // Notes that tensors [first, last] are final; name each tensor only once. Calls finished(block) for each block that
  // they complete, in descending order.
  template <class F>
  void Take(const Catalog& catalog, TensorIndex first, TensorIndex last, const F& finished) {
    // Each tensor has one segment in every block from its first to its last.
    for (TensorIndex tensor = last + 1; tensor-- > first;) {
      for (BlockIndex block = catalog.last_block(tensor) + 1; block-- > catalog.first_block(tensor);) {
        if (missing_[block] > 0 && --missing_[block] == 0) finished(block);
      }
    }
  }

  // Notes that all tensors are final. Calls finished(block) for each block that was not final yet.
  template <class F>
  void TakeRest(const F& finished) {
    for (auto block = static_cast<BlockIndex>(missing_.size()); block-- > 0;) {
      if (std::exchange(missing_[block], 0) > 0) finished(block);
    }
  }

 private:
  std::vector<std::uint32_t> missing_;  // segments that are not final, by block
};

}  // namespace capstan::client
