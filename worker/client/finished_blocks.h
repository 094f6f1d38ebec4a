// FinishedBlocks: counts, for each block, the segments of a slot's gradient that are not final yet.
//
// Kind:   owned by the application's thread.
// Fails:  Take, TakeFrom: kInvalid when elements are named again. Counted twice, they would make a block final too
//         early. TakeFrom: kInvalid when the tensor has no such element.
// Why:    a backward pass finishes tensors, or a large one from its end, but blocks are sent. A block is final when all
//         its segments are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"

namespace capstan::client {

class FinishedBlocks {
 public:
  // Starts a slot: no segment is final.
  void Begin(const Catalog& catalog) {
    final_from_.clear();
    for (const TensorSpec& tensor : catalog.tensors()) final_from_.push_back(tensor.ElementCount());
    missing_.clear();
    for (const Block& block : catalog.blocks()) missing_.push_back(block.segment_count);
  }

  // Notes that tensors [first, last] are final. Calls finished(block) for each block that they complete, in descending
  // order. If one of them is final already, notes nothing.
  template <class F>
  Status Take(const Catalog& catalog, TensorIndex first, TensorIndex last, const F& finished) {
    for (TensorIndex tensor = first; tensor <= last; ++tensor) {
      if (final_from_[tensor] == 0) return NamedTwice(catalog.tensors()[tensor].name);
    }
    for (TensorIndex tensor = last + 1; tensor-- > first;) Note(catalog, tensor, 0, finished);
    return {};
  }
  // Notes that the tensor's elements from `element` on are final. Calls finished(block) as Take does.
  template <class F>
  Status TakeFrom(const Catalog& catalog, TensorIndex tensor, std::uint64_t element, const F& finished) {
    const TensorSpec& spec = catalog.tensors()[tensor];
    if (element >= spec.ElementCount()) {
      return Invalid("tensor \"" + spec.name + "\" has " + std::to_string(spec.ElementCount()) +
                     " elements, so there is no element " + std::to_string(element));
    }
    if (element >= final_from_[tensor]) {
      const std::string from = std::to_string(final_from_[tensor]);
      return Invalid("tensor \"" + spec.name + "\" is final from element " + from +
                     " on already, and that part may have been sent; name an element below " + from);
    }
    Note(catalog, tensor, element, finished);
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

  template <class F>
  void Note(const Catalog& catalog, TensorIndex tensor, std::uint64_t element, const F& finished) {
    const std::uint64_t before = std::exchange(final_from_[tensor], element);
    // A tensor has one segment in every block from its first to its last. Only the first may begin within a block.
    const std::uint64_t size = catalog.block_elements(), first = catalog.first_block(tensor);
    for (std::uint64_t place = (before - 1) / size + 1; place-- > 0 && place * size >= element;) {
      const auto block = static_cast<BlockIndex>(first + place);
      if (missing_[block] > 0 && --missing_[block] == 0) finished(block);
    }
  }

  // By tensor: its first element that is final; the number of its elements if none is.
  std::vector<std::uint64_t> final_from_;
  std::vector<std::uint32_t> missing_;  // segments that are not final, by block
};

}  // namespace capstan::client
