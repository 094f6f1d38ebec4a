// Dropout on a device. A thread has 16 bytes of x; 256 threads to a block. Bytes: x is read and written; about 30
// integer operations an element for its random number.
#include "common/base/random.h"
#include "common/base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/dropout.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 256;

struct Drop {
  std::uint32_t threshold;
  float scale;
};

// Applies dropout to elements [first, count) of x; `first` is the start of a pack.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    DropSome(std::uint64_t key, Drop drop, std::int64_t first, std::int64_t count, T* x) {
  constexpr int kCount = Pack<T>::kCount;
  const std::int64_t at = first + (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kCount;
  if (at >= count) return;
  Pack<T> pack = LoadSome<T, kPacked>(x, at, count);
#pragma unroll
  for (int group = 0; group < kCount / 4; ++group) {
    const Random4 bits = Philox(key, static_cast<std::uint64_t>(at) / 4 + static_cast<std::uint64_t>(group), 0);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      T& value = pack.value[group * 4 + j];
      value = Rounded<T>(bits[static_cast<std::size_t>(j)] < drop.threshold ? 0.0F : ToFloat(value) * drop.scale);
    }
  }
  StoreSome<T, kPacked>(pack, x, at, count);
}

}  // namespace

template <class T>
void Dropout(CudaContext& context, const DropoutMask& mask, std::int64_t count, T* x) {
  CAPSTAN_CHECK(mask.probability >= 0 && mask.probability < 1);
  if (mask.probability == 0) return;
  const Drop drop{static_cast<std::uint32_t>(mask.probability * 0x1p32),
                  static_cast<float>(1.0 / (1.0 - mask.probability))};
  constexpr int kCount = Pack<T>::kCount;
  const std::int64_t packed = ArePacked(0, x) ? count / kCount * kCount : 0;
  Launch(context, DropSome<T, true>, GridFor(packed, kThreads, kCount), mask.key, drop, 0, packed, x);
  Launch(context, DropSome<T, false>, GridFor(count - packed, kThreads, kCount), mask.key, drop, packed, count, x);
}

template void Dropout(CudaContext&, const DropoutMask&, std::int64_t, float*);
template void Dropout(CudaContext&, const DropoutMask&, std::int64_t, Bf16*);
template void Dropout(CudaContext&, const DropoutMask&, std::int64_t, Half*);

}  // namespace capstan::kernels
