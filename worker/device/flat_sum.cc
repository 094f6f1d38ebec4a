#include "worker/device/flat_sum.h"

#include <utility>

#include "kernels/axpby.h"
#include "kernels/cast.h"

namespace capstan::train {

FlatSum::FlatSum(kernels::CudaContext& context, PinnedRange pinned, std::span<float> host, Encoding wire)
    : context_(context),
      stream_(MakeStream(context)),
      back_(stream_.get()),
      pinned_(std::move(pinned)),
      host_(host),
      sum_(context.Allocate(host.size_bytes())),
      narrow_(wire == Encoding::kFp32 ? nullptr : context.Allocate(host.size() * sizeof(Bf16))) {}

FlatSum::~FlatSum() {
  for (cudaStream_t stream : {context_.stream(), stream_.get()}) {
    if (stream != nullptr) (void)cudaStreamSynchronize(stream);
  }
}

void FlatSum::BeginSlot(std::uint64_t samples, SlotSum sum) {
  is_open_ = true;
  samples_ = static_cast<float>(samples);  // exact: a global batch has at most 2^24 samples
  mode_ = sum;
}

void FlatSum::Add(std::int64_t offset, std::int64_t count, const float* gradient) {
  const float kept = mode_ == SlotSum::kReplace ? 0.0F : 1.0F;
  kernels::Axpby(context_, count, samples_, gradient, kept, At(static_cast<std::uint64_t>(offset)));
}

void FlatSum::SetZero() {
  if (!context_.status().ok()) return;
  context_.Note(cudaMemsetAsync(sum_.get(), 0, host_.size_bytes(), context_.stream()), "setting a sum to zero");
}

collective::DeviceArray FlatSum::ToReduce(const SumRange& range) {
  if (!IsNarrow(range)) return {At(range.offset), range.count, Encoding::kFp32};
  Bf16* const narrow = static_cast<Bf16*>(narrow_.get()) + range.offset;
  kernels::Cast(context_, static_cast<std::int64_t>(range.count), At(range.offset), narrow);
  return {narrow, range.count, Encoding::kBf16};
}

DeviceSum::Copy FlatSum::Return(const SumRange& range) {
  if (IsNarrow(range)) {
    const Bf16* const narrow = static_cast<const Bf16*>(narrow_.get()) + range.offset;
    kernels::Cast(back_, static_cast<std::int64_t>(range.count), narrow, At(range.offset));
  }
  if (copies_ == arrived_.size()) arrived_.push_back(MakeEvent(back_));
  if (back_.status().ok()) {
    back_.Note(cudaMemcpyAsync(host_.data() + range.offset, At(range.offset), range.count * sizeof(float),
                               cudaMemcpyDeviceToHost, stream_.get()),
               "copying a sum from the device");
    back_.Note(cudaEventRecord(arrived_[copies_].get(), stream_.get()), "recording an event");
  }
  return copies_++;
}

Status FlatSum::Await(Copy copy) {
  CAPSTAN_RETURN_IF_ERROR(status());
  back_.Note(cudaEventSynchronize(arrived_[copy].get()), "waiting for a sum");
  return status();
}

Status FlatSum::Settle() {
  copies_ = 0;
  if (stream_ != nullptr) back_.Note(cudaStreamSynchronize(stream_.get()), "waiting for the last sums");
  return status();
}

}  // namespace capstan::train
