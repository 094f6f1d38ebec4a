#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "tests/emulation/cuda/cuda_runtime.h"
#include "tests/emulation/waits.h"

using capstan::emulation::CountsWaits;
using capstan::emulation::IsLeftOut;
using capstan::emulation::Waiting;

// NOLINTBEGIN: the names are CUDA's.
namespace {

std::size_t Setting(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::size_t TotalMemory() { return Setting("CAPSTAN_EMULATED_MEMORY", std::size_t{1} << 40); }
int Devices() { return static_cast<int>(Setting("CAPSTAN_EMULATED_DEVICES", 1)); }
constexpr int kVersion = 13000;

// An allocation stores its size in front of its memory.
constexpr std::size_t kFront = 256;
// New memory is filled with NaN, but only so many bytes at its begin and at its end: the middle of kernels' work space,
// which has tens of MiB, would cost a third of the tests' time.
constexpr std::size_t kFilled = std::size_t{4} << 20;
std::atomic<std::size_t> used{0};
std::atomic<void*> registered[16];
thread_local int current_device = 0;

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorHostMemoryAlreadyRegistered: return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered: return "cudaErrorHostMemoryNotRegistered";
  }
  return "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = Devices();
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  return driver < kVersion ? cudaErrorInsufficientDriver : *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device >= Devices()) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device >= Devices()) return cudaErrorInvalidDevice;
  *properties = {"emulated on the CPU", {}, static_cast<int>(Setting("CAPSTAN_EMULATED_CAPABILITY", 9)), 0, 2,
                 TotalMemory()};
  // Each process has different devices, unless CAPSTAN_EMULATED_UUID is set.
  const std::size_t uuid[] = {Setting("CAPSTAN_EMULATED_UUID", static_cast<std::size_t>(getpid())),
                              static_cast<std::size_t>(device)};
  static_assert(sizeof(uuid) == sizeof(properties->uuid));
  std::memcpy(&properties->uuid, uuid, sizeof(uuid));
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = static_cast<int>(Setting("CAPSTAN_EMULATED_DRIVER", kVersion));
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = TotalMemory();
  *free = *total - std::min(*total, used.load());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = nullptr;
  if (bytes > TotalMemory() - std::min(TotalMemory(), used.load())) return cudaErrorMemoryAllocation;
  void* whole = nullptr;  // the allocation; it ends with the last byte, so that a sanitizer sees writes beyond it
  if (posix_memalign(&whole, kFront, kFront + bytes) != 0) return cudaErrorMemoryAllocation;
  auto* const front = static_cast<std::byte*>(whole);
  std::memcpy(front, &bytes, sizeof(bytes));
  const std::size_t filled = std::min(bytes, kFilled);
  std::memset(front + kFront, 0xFF, filled);
  std::memset(front + kFront + bytes - filled, 0xFF, filled);
  used += bytes;
  *memory = front + kFront;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  std::byte* const front = static_cast<std::byte*>(memory) - kFront;
  std::size_t bytes = 0;
  std::memcpy(&bytes, front, sizeof(bytes));
  used -= bytes;
  std::free(front);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::aligned_alloc(kFront, (bytes + kFront - 1) / kFront * kFront);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, std::size_t, unsigned) {
  for (const std::atomic<void*>& one : registered) {
    if (one == memory) return cudaErrorHostMemoryAlreadyRegistered;
  }
  for (std::atomic<void*>& one : registered) {
    void* free = nullptr;
    if (one.compare_exchange_strong(free, memory)) return cudaSuccess;
  }
  return cudaErrorMemoryAllocation;
}
cudaError_t cudaHostUnregister(void* memory) {
  for (std::atomic<void*>& one : registered) {
    void* held = memory;
    if (one.compare_exchange_strong(held, nullptr)) return cudaSuccess;
  }
  return cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (bytes > 0 && (to == nullptr || from == nullptr)) return cudaErrorInvalidValue;
  stream->Enqueue([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  stream->Enqueue([=] {
    if (bytes > 0) std::memset(memory, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!IsLeftOut(Waiting::kHostForStream)) stream->Synchronize();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!IsLeftOut(Waiting::kStreamForEvent)) stream->WaitFor(event);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream->Record(event);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->Is(event->newest().ticket) && !CountsWaits() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!IsLeftOut(Waiting::kHostForEvent)) event->Wait(event->newest());
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->Is(begin->newest().ticket) || !end->Is(end->newest().ticket)) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time() - begin->time()).count();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument) {
  stream->Enqueue([=] { call(argument); });
  return cudaSuccess;
}
// NOLINTEND
