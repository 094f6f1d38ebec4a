// Slices that own their memory; disk reads go into them.
//
// Kind:   functions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/buffer.h"

namespace capstan::server {

template <class Owner>
Slice SliceOwnedBy(std::unique_ptr<Owner> owner, std::byte* data, std::size_t size) {
  return WholeBuffer(WrapForeign(
      data, size, [](void* context) { delete static_cast<Owner*>(context); }, owner.release()));
}

// Returns new memory that is aligned for numbers. The caller writes its bytes through slice.owner->data().
inline Slice NewSlice(std::size_t size) {
  struct Bytes {
    explicit Bytes(std::size_t count) : data(new std::byte[count]) {}
    std::unique_ptr<std::byte[]> data;
  };
  auto owner = std::make_unique<Bytes>(size);
  std::byte* data = owner->data.get();
  return SliceOwnedBy(std::move(owner), data, size);
}

inline Slice SliceOf(std::string text) {
  auto owner = std::make_unique<std::string>(std::move(text));
  auto* data = reinterpret_cast<std::byte*>(owner->data());
  const std::size_t size = owner->size();
  return SliceOwnedBy(std::move(owner), data, size);
}

}  // namespace capstan::server
