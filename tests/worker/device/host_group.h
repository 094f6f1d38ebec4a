// HostGroup: calls a DeviceGroup with host arrays, and waits for each call. TestDevice: a device for it.
//
// Kind:   owned by one thread.
// Why:    arrays are copied to the device and back on the computing stream, as a trainer's gradients would be.
#pragma once

#include <memory>
#include <span>

#include "worker/device/cuda_handles.h"
#include "worker/device/nccl_group.h"

namespace capstan::train {

// A computing stream and its context.
struct TestDevice {
  static cudaStream_t NewStream() {
    cudaStream_t made = nullptr;
    CAPSTAN_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess);
    return made;
  }
  kernels::CudaContext::Memory Put(const void* from, std::size_t bytes) {
    kernels::CudaContext::Memory memory = context.Allocate(bytes + 1);
    Copy(memory.get(), from, bytes, cudaMemcpyHostToDevice, stream.get());
    return memory;
  }
  void Copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t on) {
    context.Note(cudaMemcpyAsync(to, from, bytes, kind, on), "copying");
  }
  Status Synchronize(cudaStream_t on) {
    context.Note(cudaStreamSynchronize(on), "waiting");
    return context.status();
  }

  CudaStream stream{NewStream()};
  kernels::CudaContext context{stream.get()};
};

class HostGroup {
 public:
  using Deadline = collective::Deadline;

  HostGroup(TestDevice* device, std::unique_ptr<collective::DeviceGroup> group)
      : device_(device), group_(std::move(group)) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  Status AllReduce(std::span<float> data, Deadline deadline) {
    return Run(data, [&](const auto& there) { return group_->SubmitAllReduce(there, deadline); });
  }
  // `all` has room for all members' numbers at the root.
  Status Gather(std::span<const float> mine, int root, std::span<float> all, Deadline deadline) {
    const kernels::CudaContext::Memory own = device_->Put(mine.data(), mine.size_bytes());
    return Run(root == rank() ? all : std::span<float>(), [&](const auto& there) {
      return group_->SubmitGather({own.get(), mine.size()}, there.data, root, deadline);
    });
  }
  void Abort() { group_->Abort(); }

 private:
  template <class Submit>
  Status Run(std::span<float> data, const Submit& submit) {
    const kernels::CudaContext::Memory there = device_->Put(data.data(), data.size_bytes());
    const Status status = RunThere(data, there.get(), submit);
    const Status copied = device_->Synchronize(device_->stream.get());  // work in flight uses both
    return status.ok() ? copied : status;
  }
  template <class Submit>
  Status RunThere(std::span<float> data, void* there, const Submit& submit) {
    const cudaStream_t stream = device_->stream.get();
    CAPSTAN_ASSIGN_OR_RETURN(const auto ticket, submit(collective::DeviceArray{there, data.size()}));
    CAPSTAN_RETURN_IF_ERROR(group_->OrderAfter(ticket, stream));
    device_->Copy(data.data(), there, data.size_bytes(), cudaMemcpyDeviceToHost, stream);
    return group_->Wait(ticket);
  }

  TestDevice* const device_;
  const std::unique_ptr<collective::DeviceGroup> group_;
};

}  // namespace capstan::train
