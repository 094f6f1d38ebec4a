// Axpby on a device. A thread computes 16 bytes of y (one number where the arrays are not aligned, and at the end); 256
// threads to a block. Bytes: x is read, y written and, if b is not 0, also read. 3 operations an element; 1 if b is 0.
#include "kernels/axpby.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__device__ __forceinline__ T AxpbyOf(float a, T x, float b, const T* y) {
  return Rounded<T>(b == 0 ? a * ToFloat(x) : a * ToFloat(x) + b * ToFloat(*y));
}

template <class T>
__global__ void __launch_bounds__(kThreads) AxpbyPacks(std::int64_t packs, float a, const T* x, float b, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  constexpr int kCount = Pack<T>::kCount;
  const Pack<T> in = LoadPack(x + i * kCount);
  Pack<T> out = b == 0 ? in : LoadPack(y + i * kCount);
  for (int j = 0; j < kCount; ++j) out.value[j] = AxpbyOf(a, in.value[j], b, &out.value[j]);
  StorePack(y + i * kCount, out);
}

template <class T>
__global__ void __launch_bounds__(kThreads) AxpbyNumbers(std::int64_t count, float a, const T* x, float b, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) y[i] = AxpbyOf(a, x[i], b, y + i);
}

}  // namespace

template <class T>
void Axpby(CudaContext& context, std::int64_t count, Wide<T> a, const T* x, Wide<T> b, T* y) {
  const std::int64_t packs = ArePacked(0, x, y) ? count / Pack<T>::kCount : 0, done = packs * Pack<T>::kCount;
  Launch(context, AxpbyPacks<T>, GridFor(packs, kThreads), packs, a, x, b, y);
  Launch(context, AxpbyNumbers<T>, GridFor(count - done, kThreads), count - done, a, x + done, b, y + done);
}

template void Axpby(CudaContext&, std::int64_t, float, const float*, float, float*);
template void Axpby(CudaContext&, std::int64_t, float, const Bf16*, float, Bf16*);
template void Axpby(CudaContext&, std::int64_t, float, const Half*, float, Half*);

}  // namespace capstan::kernels
