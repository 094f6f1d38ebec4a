// The part of CUDA's runtime and language that capstan uses, for a compiler and a machine without CUDA: kernels run as
// fibers on the stream's thread (grid.h, stream.h). It takes the place of NVIDIA's header of the same name.
//
// Limits: device memory is host memory. CAPSTAN_EMULATED_MEMORY=BYTES, _DEVICES=COUNT, _CAPABILITY=MAJOR, _UUID=NUMBER
//         and _DRIVER=13000 set what the devices report. Kernels may use threadIdx and the like, static __shared__
//         arrays, barriers, shuffles and votes.
// Fails:  as CUDA, with cudaError_t.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/emulation/grid.h"
#include "tests/emulation/stream.h"

// NOLINTBEGIN: the names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

using dim3 = capstan::emulation::Size3;
#define threadIdx (capstan::emulation::ThisThread().thread)
#define blockIdx (capstan::emulation::ThisThread().block)
#define blockDim (capstan::emulation::ThisThread().block_size)
#define gridDim (capstan::emulation::ThisThread().grid_size)
constexpr int warpSize = 32;

struct [[gnu::may_alias]] alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct [[gnu::may_alias]] alignas(16) float4 {
  float x, y, z, w;
};

inline void __syncthreads() { capstan::emulation::SyncBlock(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { capstan::emulation::SyncWarp(mask); }
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = capstan::emulation::Lane();
  capstan::emulation::Exchange(mask, lane / width * width + from % width, &value, sizeof(T));
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int = 32) {
  capstan::emulation::Exchange(mask, capstan::emulation::Lane() ^ with, &value, sizeof(T));
  return value;
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, int width = 32) {
  const int lane = capstan::emulation::Lane();
  capstan::emulation::Exchange(mask, lane % width + by < width ? lane + by : lane, &value, sizeof(T));
  return value;
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by, int width = 32) {
  const int lane = capstan::emulation::Lane();
  capstan::emulation::Exchange(mask, lane % width >= by ? lane - by : lane, &value, sizeof(T));
  return value;
}
inline unsigned __ballot_sync(unsigned mask, int bit) { return capstan::emulation::Ballot(mask, bit != 0); }
inline int __any_sync(unsigned mask, int bit) { return __ballot_sync(mask, bit) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int bit) { return __ballot_sync(mask, bit) == mask ? 1 : 0; }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frsqrt_rn(float x) { return 1.0F / std::sqrt(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
template <class T>
T __ldg(const T* from) {
  return *from;
}

// ---- the runtime ---------------------------------------------------------------------------------------------------

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
};
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
struct CUstream_st : capstan::emulation::Stream {};
struct CUevent_st : capstan::emulation::Event {};
using cudaHostFn_t = void (*)(void*);

constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventBlockingSync = 1,
                   cudaEventDisableTiming = 2, cudaHostRegisterDefault = 0, cudaHostAllocDefault = 0;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  int major, minor, multiProcessorCount;
  std::size_t totalGlobalMem;
};

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

// All allocated memory is poisoned, also the host's: every byte is 0xFF, which is NaN in every floating-point type.
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
// Records where a registered range begins. At most 16 ranges can be registered at a time.
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// The time between the events is measured with the host's clock.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument);

// Like CUDA's template for C++ functions. The kernel's arguments are copied before this function returns.
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  constexpr unsigned kMostY = 65535;
  if (shared_bytes != 0 || blocks.y > kMostY || blocks.z > kMostY || blocks.x > 0x7FFFFFFF)
    return cudaErrorInvalidValue;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::tuple<Parameters...> copies(*static_cast<Parameters*>(arguments[I])...);
    stream->Enqueue([=] { capstan::emulation::RunGrid(blocks, threads, [&] { std::apply(kernel, copies); }); });
  }
  (std::index_sequence_for<Parameters...>());
  return cudaSuccess;
}
// NOLINTEND
