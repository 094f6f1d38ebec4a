// GradientReturn: gradients on their way from the device to the host, through a ring of pinned memory.
//
// Kind:   owned by the thread that runs the model.
// Limits: kChunks chunks of kChunkElements. Where all are on their way, Send waits for the oldest.
// Fails:  as its context.
// Why:    a tensor's gradient leaves while the device computes the next; the copy out of the ring is the one that
//         brings it into the cache of the thread that sends it.
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

  // `context`: on whose stream gradients are made.
  explicit GradientReturn(kernels::CudaContext& context);
  // What is on its way writes to memory that goes with this.
  ~GradientReturn();
  GradientReturn(const GradientReturn&) = delete;
  GradientReturn& operator=(const GradientReturn&) = delete;

  // What Send is given from now on is final once all that is enqueued by now is done.
  void AwaitMade();
  // `count` numbers at `from`, written as `encoding` says, go to `to`, which is the host's, as fp32. Then `arrived`
  // (may be empty) is called, on this thread, by a later Send, Poll or Finish; ranges arrive in the order of Send.
  void Send(const void* from, Encoding encoding, std::int64_t count, float* to, std::function<void()> arrived);
  // What has arrived by now.
  void Poll();
  // All of it.
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
  // Which has arrived.
  void TakeOldest();

  kernels::CudaContext& context_;
  const CudaStream stream_;
  const CudaEvent made_;
  const PinnedMemory memory_;
  std::array<Chunk, kChunks> chunks_;
  std::size_t oldest_ = 0, on_the_way_ = 0;
};

}  // namespace capstan::train
