// StepSums: a round's slots and buckets: which slots have begun and ended, how many samples they have, and which
// buckets are final and reduced.
//
// Kind:   a value; a part of AllReduceCore.
// Why:    a bucket is reduced as soon as the round's last slot has finished its blocks and those of the buckets before
//         it, so that summing over the workers overlaps with the backward pass. All workers must begin buckets in one
//         order, but a worker without samples in the last slot runs no backward pass, and ends its blocks in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"
#include "worker/allreduce/all_reduce_commands.h"
#include "worker/collective/buckets.h"

namespace capstan::train {

class StepSums {
 public:
  StepSums() = default;
  StepSums(std::vector<SlotIndex> slots, const std::vector<Bucket>& buckets);

  bool IsNext(SlotIndex slot) const { return !open_ && begun_ < slots_.size() && slots_[begun_] == slot; }
  bool IsOpen(SlotIndex slot) const { return open_ && slots_[begun_ - 1] == slot; }
  bool is_open() const { return open_; }
  bool at_last_slot() const { return begun_ == slots_.size(); }
  // Other members may be adding up this worker's part: its last slot has begun, and TakeReports was not called yet.
  bool under_way() const { return begun_ > 0 && at_last_slot() && (open_ || !reports_.empty()); }
  std::uint64_t samples() const { return samples_; }  // of the slots that have begun

  OpenSlot BeginSlot(std::uint64_t samples);
  // Call it for each block of each slot.
  void FinishBlock(std::size_t bucket) {
    if (at_last_slot()) --blocks_missing_[bucket];
  }
  // Returns the next bucket to reduce if this worker's sum of it is final, once for each bucket, in order.
  std::optional<std::size_t> TakeFinalBucket() {
    const bool is_final = begun_reducing_ < blocks_missing_.size() && blocks_missing_[begun_reducing_] == 0;
    return is_final ? std::optional(begun_reducing_++) : std::nullopt;
  }
  void EndSlot(SlotReport report);
  // Call it when the application leaves a slot without ending it.
  void LeaveSlot() { open_ = false; }

  // The next bucket to wait for, in order; nullopt: all are reduced.
  std::optional<std::size_t> awaited() const {
    return reduced_ < blocks_missing_.size() ? std::optional(reduced_) : std::nullopt;
  }
  void BucketReduced() { ++reduced_; }
  // Call it when the step is done.
  std::vector<SlotReport> TakeReports() { return std::exchange(reports_, {}); }

 private:
  std::vector<SlotIndex> slots_;
  std::size_t begun_ = 0;
  bool open_ = false;
  bool has_sum_ = false;  // some slot that has ended had samples
  std::uint64_t slot_samples_ = 0, samples_ = 0;
  std::vector<std::uint32_t> blocks_missing_;     // blocks of the last slot that are not final, by bucket
  std::size_t begun_reducing_ = 0, reduced_ = 0;  // numbers of buckets
  std::vector<SlotReport> reports_;
};

}  // namespace capstan::train
