// FlatSum: a DeviceSum in CUDA memory: one flat array for all tensors.
//
// Kind:   owned by the model's thread. Copies to the host have their own stream.
// Limits: the host's array is pinned for this object's lifetime.
// Fails:  as its contexts, which keep their first failure.
// Why:    copies are enqueued behind reductions that other workers may delay. So the host must not wait for one copy to
//         make room for the next. Each copy goes directly to its final place in the host's array.
#pragma once

#include <span>
#include <vector>

#include "common/base/types.h"
#include "worker/device/cuda_handles.h"
#include "worker/device/device_sum.h"

namespace capstan::train {

class FlatSum final : public DeviceSum {
 public:
  // `context`: its stream computes the gradients.
  FlatSum(kernels::CudaContext& context, PinnedRange pinned, std::span<float> host, Encoding wire);
  // Waits for copies in flight, because they write to the host's array.
  ~FlatSum() override;
  FlatSum(const FlatSum&) = delete;
  FlatSum& operator=(const FlatSum&) = delete;

  bool is_open() const { return is_open_; }
  // Enqueues adding `gradient` times the slot's samples to elements [offset, offset + count) of the sum. For the first
  // slot (SlotSum::kReplace) the product replaces them.
  void Add(std::int64_t offset, std::int64_t count, const float* gradient);

  void BeginSlot(std::uint64_t samples, SlotSum sum) override;
  void EndSlot() override { is_open_ = false; }
  void SetZero() override;
  collective::DeviceArray ToReduce(const SumRange& range) override;
  CUstream_st* stream() const override { return stream_.get(); }
  Copy Return(const SumRange& range) override;
  Status Await(Copy copy) override;
  Status Settle() override;

 private:
  bool IsNarrow(const SumRange& range) const { return narrow_ != nullptr && !range.exact; }
  float* At(std::uint64_t offset) const { return static_cast<float*>(sum_.get()) + offset; }
  Status status() const { return context_.status().ok() ? back_.status() : context_.status(); }

  kernels::CudaContext& context_;
  const CudaStream stream_;
  kernels::CudaContext back_;  // enqueues on `stream_`
  const PinnedRange pinned_;
  const std::span<float> host_;
  const kernels::CudaContext::Memory sum_, narrow_;  // narrow_: the sum in the wire's encoding; null for fp32
  std::vector<CudaEvent> arrived_;                   // by number of the copy; only grows
  Copy copies_ = 0;
  bool is_open_ = false;
  float samples_ = 0;
  SlotSum mode_ = SlotSum::kReplace;
};

}  // namespace capstan::train
