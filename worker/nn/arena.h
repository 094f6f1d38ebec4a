// Arena: one piece of a context's memory that holds all activations of a model.
//
// Kind:   owned by its model.
// Why:    a step's arrays lie at offsets that depend only on the batch's shape. Nothing is allocated once the largest
//         batch has been seen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace capstan::nn {

template <class Context>
class Arena {
 public:
  explicit Arena(Context& context) : context_(context) {}

  // Calls `layout(arena)` twice, once to measure and once to place, and returns the second call's result. `layout`
  // calls Take for every array.
  template <class Layout>
  auto Place(const Layout& layout) {
    Reserve(Measure(layout));
    base_ = static_cast<std::byte*>(memory_.get());
    used_ = 0;
    return layout(*this);
  }

  // Returns the bytes that Place(layout) needs. Allocates nothing, but earlier placements become invalid.
  template <class Layout>
  std::size_t Measure(const Layout& layout) {
    base_ = nullptr;
    used_ = 0;
    layout(*this);
    return used_;
  }

  // Makes the arena at least that large. If it was smaller, earlier placements become invalid.
  void Reserve(std::size_t bytes) {
    if (bytes <= capacity_) return;
    memory_.reset();
    capacity_ = 0;
    memory_ = context_.Allocate(bytes);
    capacity_ = bytes;
  }

  // Returns the bytes of the context's memory that the arena has.
  std::size_t bytes() const { return capacity_; }

  // Returns `count` elements, aligned to 64 bytes; null while measuring.
  template <class Real>
  Real* Take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(Real) + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : reinterpret_cast<Real*>(base_ + at);
  }

 private:
  Context& context_;
  typename Context::Memory memory_;
  std::size_t capacity_ = 0, used_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace capstan::nn
