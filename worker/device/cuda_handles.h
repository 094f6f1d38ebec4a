// CudaStream, CudaEvent, PinnedMemory, PinnedRange: CUDA resources, released by their destructors.
//
// Kind:   owned by one thread. A stream's destructor waits for the work enqueued on it.
// Fails:  the CudaContext that they are made with keeps the first failure. After a failure the Make functions return
//         null.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "kernels/base/context.h"

namespace capstan::train {

struct CudaDelete {
  void operator()(cudaStream_t stream) const {
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
  }
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using CudaStream = std::unique_ptr<CUstream_st, CudaDelete>;
using CudaEvent = std::unique_ptr<CUevent_st, CudaDelete>;

struct PinnedFree {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
// Pinned host memory: the device copies from and to it without a staging buffer.
using PinnedMemory = std::unique_ptr<void, PinnedFree>;

struct Unpin {
  void operator()(void* memory) const { (void)cudaHostUnregister(memory); }
};
// Pinned memory that another object owns; unpins it when destroyed. The memory must outlive the PinnedRange.
using PinnedRange = std::unique_ptr<void, Unpin>;

inline CudaStream MakeStream(kernels::CudaContext& context) {
  cudaStream_t stream = nullptr;
  if (context.status().ok()) context.Note(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return CudaStream(stream);
}

// `flags`: flags of cudaEventCreateWithFlags; timing is always disabled.
inline CudaEvent MakeEvent(kernels::CudaContext& context, unsigned flags = cudaEventDefault) {
  cudaEvent_t event = nullptr;
  if (context.status().ok()) {
    context.Note(cudaEventCreateWithFlags(&event, flags | cudaEventDisableTiming), "making an event");
  }
  return CudaEvent(event);
}

inline PinnedMemory MakePinned(kernels::CudaContext& context, std::size_t bytes) {
  void* memory = nullptr;
  if (context.status().ok()) context.Note(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "pinning memory");
  return PinnedMemory(memory);
}

// Lets everything that is enqueued on `after` from now on run after everything that is on `before` now.
inline void Order(kernels::CudaContext& context, cudaStream_t before, cudaEvent_t event, cudaStream_t after) {
  if (!context.status().ok()) return;
  context.Note(cudaEventRecord(event, before), "recording an event");
  context.Note(cudaStreamWaitEvent(after, event, 0), "waiting for an event");
}

}  // namespace capstan::train
