#include "worker/allreduce/step_sums.h"

namespace capstan::train {

StepSums::StepSums(std::vector<SlotIndex> slots, const std::vector<Bucket>& buckets) : slots_(std::move(slots)) {
  for (const Bucket& bucket : buckets) blocks_missing_.push_back(bucket.last - bucket.first + 1);
}

OpenSlot StepSums::BeginSlot(std::uint64_t samples) {
  ++begun_;
  open_ = true;
  slot_samples_ = samples;
  samples_ += samples;
  OpenSlot slot{samples};
  if (samples > 0) slot.use = has_sum_ ? SumUse::kAdd : SumUse::kReplace;
  slot.zero = at_last_slot() && !has_sum_ && samples == 0;
  return slot;
}

void StepSums::EndSlot(SlotReport report) {
  open_ = false;
  has_sum_ = has_sum_ || slot_samples_ > 0;
  reports_.push_back(std::move(report));
}

}  // namespace capstan::train
