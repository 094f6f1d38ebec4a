// GradientReturn: copies gradients from the device to the host, through a ring of pinned memory.
//
// Kind:   owned by the thread that runs the model.
// Limits: kChunks chunks of kChunkElements elements. When all are in flight, Send waits for the oldest.
// Fails:  as its context does.
// Why:    a tensor's gradient is copied while the device computes the next one. Decoding it from the ring also brings
//         it into the cache of the thread that will hash and send it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/types.h"
#include "worker/device/cuda_handles.h"

namespace capstan::train {

class GradientReturn {
 public:
  static constexpr std::int64_t kChunkElements = 1 << 20;
  static constexpr std::size_t kChunks = 16;

  // `context`: its stream computes the gradients.
  explicit GradientReturn(kernels::CudaContext& context);
  // Waits for copies in flight, because they write to this object's memory.
  ~GradientReturn();
  GradientReturn(const GradientReturn&) = delete;
  GradientReturn& operator=(const GradientReturn&) = delete;

  // Makes all later copies wait for everything that is on the context's stream now.
  void AwaitMade();
  // Copies `count` numbers in `encoding` from `from` on the device to `to` on the host, as fp32. A later Send, Poll or
  // Finish then calls `arrived` (may be empty) on this thread. Ranges arrive in the order of Send.
  void Send(const void* from, Encoding encoding, std::int64_t count, float* to, std::function<void()> arrived);
  // Decodes the chunks that have arrived by now, and calls `arrived` for each range that is complete.
  void Poll();
  // Does the same for all chunks, after it has waited for them.
  void Finish();

 private:
  struct Chunk {
    std::byte* host = nullptr;
    CudaEvent copied;
    Encoding encoding = Encoding::kFp32;
    float* to = nullptr;
    std::int64_t count = 0;
    std::function<void()> arrived;  // empty: more of the range follows
  };
  void WaitForOldest();
  // Decodes the oldest chunk, which must have arrived, and calls its `arrived`.
  void TakeOldest();

  kernels::CudaContext& context_;
  const CudaStream stream_;
  const CudaEvent made_;
  const PinnedMemory memory_;
  std::array<Chunk, kChunks> chunks_;
  std::size_t oldest_ = 0, on_the_way_ = 0;
};

}  // namespace capstan::train
