// A context and arrays on a device, which is real or emulated, depending on the build.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/base/context.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"

namespace capstan::kernels {

class Device {
 public:
  Device() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  ~Device() {
    context_.reset();
    (void)cudaStreamDestroy(stream_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  CudaContext& context() {
    if (context_ == nullptr) context_ = std::make_unique<CudaContext>(stream_);
    return *context_;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaContext> context_;
};

// An array on the device with the given values, or with `count` NaNs (for integers: -1). `offset` elements lie in front
// of the array, so that with an offset of 1 its first element is not aligned.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Device& device, std::int64_t count, std::int64_t offset = 0)
      : DeviceArray(device, Poison<T>(count), offset) {}
  DeviceArray(Device& device, const std::vector<T>& values, std::int64_t offset = 0)
      : device_(device),
        count_(values.size()),
        memory_(device.context().Allocate((values.size() + static_cast<std::size_t>(offset)) * sizeof(T))),
        first_(static_cast<T*>(memory_.get()) + offset) {
    Copy(first_, values.data(), cudaMemcpyHostToDevice);
  }

  T* get() { return first_; }
  // Waits for all enqueued work, and returns the array's values.
  std::vector<T> Read() {
    std::vector<T> values(count_);
    Copy(values.data(), first_, cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void Copy(void* to, const void* from, cudaMemcpyKind kind) {
    CudaContext& context = device_.context();
    context.Note(cudaMemcpyAsync(to, from, count_ * sizeof(T), kind, context.stream()), "copying");
    context.Note(cudaStreamSynchronize(context.stream()), "waiting");
    REQUIRE(context.status().message() == "");
  }

  Device& device_;
  std::size_t count_;
  CudaContext::Memory memory_;
  T* first_;
};

template <>
inline DeviceArray<std::int32_t>::DeviceArray(Device& device, std::int64_t count, std::int64_t offset)
    : DeviceArray(device, std::vector<std::int32_t>(static_cast<std::size_t>(count), -1), offset) {}

}  // namespace capstan::kernels
