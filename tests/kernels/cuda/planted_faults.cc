// Deliberate faults in device code: planted_faults [out-of-bounds|missing-wait|missing-barrier]. Without an argument
// the program does the same work without a fault. The tests check that a sanitizer reports each fault.
#include <cstdio>
#include <string>

#include "kernels/cuda/launch.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 64;
constexpr int kCount = 200;

__global__ void FillArray(int count, float* out) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < count) out[i] = 1;
}

__global__ void DoubleArray(int count, float* out) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < count) out[i] *= 2;
}

__global__ void TakeNeighbours(int count, bool waits, float* out) {
  __shared__ float numbers[kThreads];
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (waits) __syncthreads();
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i < count) out[i] = numbers[(threadIdx.x + 1) % kThreads];
}

void RunAll(const std::string& fault) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t filled = nullptr;
  void* memory = nullptr;
  (void)cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  (void)cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  (void)cudaEventCreateWithFlags(&filled, cudaEventDisableTiming);
  (void)cudaMalloc(&memory, kCount * sizeof(float));
  auto* const numbers = static_cast<float*>(memory);
  CudaContext on_first(first), on_second(second);

  Launch(on_first, FillArray, GridFor(kCount, kThreads), fault == "out-of-bounds" ? kCount + 1 : kCount, numbers);
  (void)cudaEventRecord(filled, first);
  if (fault != "missing-wait") (void)cudaStreamWaitEvent(second, filled);
  Launch(on_second, DoubleArray, GridFor(kCount, kThreads), kCount, numbers);
  Launch(on_second, TakeNeighbours, GridFor(kCount, kThreads), kCount, fault != "missing-barrier", numbers);

  (void)cudaStreamSynchronize(first);
  (void)cudaStreamSynchronize(second);
  (void)cudaFree(memory);
  (void)cudaEventDestroy(filled);
  (void)cudaStreamDestroy(second);
  (void)cudaStreamDestroy(first);
}

}  // namespace
}  // namespace capstan::kernels

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "";
  if (!fault.empty() && fault != "out-of-bounds" && fault != "missing-wait" && fault != "missing-barrier") {
    std::fprintf(stderr, "planted_faults: there is no fault '%s'\n", fault.c_str());
    return 2;
  }
  capstan::kernels::RunAll(fault);
  return 0;
}
