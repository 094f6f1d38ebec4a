#include "worker/device/gradient_return.h"

#include <algorithm>
#include <utility>

#include "common/data/encoding.h"

namespace capstan::train {

GradientReturn::GradientReturn(kernels::CudaContext& context)
    : context_(context),
      stream_(MakeStream(context)),
      made_(MakeEvent(context)),
      memory_(MakePinned(context, kChunks * kChunkElements * sizeof(float))) {
  for (std::size_t i = 0; i < kChunks; ++i) {
    chunks_[i].host = static_cast<std::byte*>(memory_.get()) + i * kChunkElements * sizeof(float);
    chunks_[i].copied = MakeEvent(context);
  }
}

GradientReturn::~GradientReturn() {
  if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_.get());
}

void GradientReturn::AwaitMade() { Order(context_, context_.stream(), made_.get(), stream_.get()); }

void GradientReturn::Send(const void* from, Encoding encoding, std::int64_t count, float* to,
                          std::function<void()> arrived) {
  const std::size_t width = BytesPerNumber(encoding);
  for (std::int64_t begin = 0; begin < count && context_.status().ok();) {
    if (on_the_way_ == kChunks) WaitForOldest();
    Chunk& chunk = chunks_[(oldest_ + on_the_way_) % kChunks];
    chunk.encoding = encoding;
    chunk.to = to + begin;
    chunk.count = std::min(kChunkElements, count - begin);
    context_.Note(
        cudaMemcpyAsync(chunk.host, static_cast<const std::byte*>(from) + static_cast<std::size_t>(begin) * width,
                        static_cast<std::size_t>(chunk.count) * width, cudaMemcpyDeviceToHost, stream_.get()),
        "copying a gradient from the device");
    context_.Note(cudaEventRecord(chunk.copied.get(), stream_.get()), "recording an event");
    begin += chunk.count;
    chunk.arrived = begin == count ? std::move(arrived) : nullptr;
    ++on_the_way_;
  }
}

void GradientReturn::WaitForOldest() {
  if (context_.status().ok()) {
    context_.Note(cudaEventSynchronize(chunks_[oldest_].copied.get()), "waiting for a gradient");
  }
  TakeOldest();
}

void GradientReturn::TakeOldest() {
  Chunk& chunk = chunks_[oldest_];
  oldest_ = (oldest_ + 1) % kChunks;
  --on_the_way_;
  if (!context_.status().ok()) return;
  Decode(chunk.encoding, chunk.host, static_cast<std::size_t>(chunk.count), chunk.to);
  if (const std::function<void()> arrived = std::exchange(chunk.arrived, nullptr)) arrived();
}

void GradientReturn::Poll() {
  while (on_the_way_ > 0 && context_.status().ok()) {
    const cudaError_t status = cudaEventQuery(chunks_[oldest_].copied.get());
    if (status == cudaErrorNotReady) return;
    context_.Note(status, "asking for a gradient");
    TakeOldest();
  }
}

void GradientReturn::Finish() {
  while (on_the_way_ > 0) WaitForOldest();
}

}  // namespace capstan::train
