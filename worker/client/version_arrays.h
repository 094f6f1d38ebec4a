// VersionArrays: the memory into which a reader fetches a version: flat arrays of all weights and of the optimizer's
// states.
//
// Kind:   a value; part of ReaderCore.
// Limits: the arrays of one version. The next version is read into the same memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/data/catalog.h"
#include "common/wire/actor.h"

namespace capstan::client {

class VersionArrays {
 public:
  // Makes `count` arrays of `elements` numbers each. Returns false if there is no memory for them.
  bool MakeRoom(std::uint32_t count, std::uint64_t elements) {
    if (arrays_.size() > count) arrays_.resize(count);
    while (arrays_.size() < count) {
      std::unique_ptr<float[]> array(new (std::nothrow) float[elements]);
      if (!array) return false;
      arrays_.push_back(std::move(array));
    }
    return true;
  }
  void Write(const Block& block, std::uint32_t array, const Slice& values) {
    std::memcpy(arrays_[array].get() + block.flat_offset, values.data, values.size);
  }
  // Index 0: the weights; the others are the optimizer's states. Null: not fetched.
  const float* array(std::uint32_t index) const { return index < arrays_.size() ? arrays_[index].get() : nullptr; }

 private:
  std::vector<std::unique_ptr<float[]>> arrays_;
};

}  // namespace capstan::client
