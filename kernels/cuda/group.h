// Group: the adjacent numbers that one thread works on: one or more packs (of 16 bytes), or one number if rows are not
// aligned.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/numbers.h"

namespace capstan::kernels {

template <class T, int kCount>
struct Group {
  T value[kCount];
};

// Loads kCount numbers: one, or whole packs of T.
template <int kCount, class T>
__device__ __forceinline__ Group<T, kCount> LoadGroup(const T* from) {
  Group<T, kCount> group;
  if constexpr (kCount == 1) {
    group.value[0] = *from;
  } else {
    constexpr int kPack = Pack<T>::kCount;
    for (int i = 0; i < kCount; i += kPack) {
      const Pack<T> pack = LoadPack(from + i);
      for (int j = 0; j < kPack; ++j) group.value[i + j] = pack.value[j];
    }
  }
  return group;
}

template <int kCount, class T>
__device__ __forceinline__ Group<float, kCount> LoadFloats(const T* from) {
  const Group<T, kCount> group = LoadGroup<kCount>(from);
  Group<float, kCount> floats;
  for (int j = 0; j < kCount; ++j) floats.value[j] = ToFloat(group.value[j]);
  return floats;
}

template <class T, int kCount>
__device__ __forceinline__ void StoreGroup(T* to, const Group<T, kCount>& group) {
  if constexpr (kCount == 1) {
    *to = group.value[0];
  } else {
    constexpr int kPack = Pack<T>::kCount;
    for (int i = 0; i < kCount; i += kPack) {
      Pack<T> pack;
      for (int j = 0; j < kPack; ++j) pack.value[j] = group.value[i + j];
      StorePack(to + i, pack);
    }
  }
}

template <class T, int kCount>
__device__ __forceinline__ void StoreRounded(T* to, const Group<float, kCount>& floats) {
  Group<T, kCount> group;
  for (int j = 0; j < kCount; ++j) group.value[j] = Rounded<T>(floats.value[j]);
  StoreGroup(to, group);
}

// Calls with(std::integral_constant), whose value is the number of channels that a thread takes at once: a pack of T,
// or one if the arrays at `pointers` are not aligned or their rows are no whole packs.
template <class T, class With, class... Pointers>
void WithGroup(std::int64_t channels, const With& with, const Pointers*... pointers) {
  if (ArePacked(channels * static_cast<std::int64_t>(sizeof(T)), pointers...)) {
    with(std::integral_constant<int, Pack<T>::kCount>());
  } else {
    with(std::integral_constant<int, 1>());
  }
}

}  // namespace capstan::kernels
