// SlotComputer: computes the gradient of one slot, micro-batch by micro-batch, and the slot's share of validation.
//
// Kind:   owned by the trainer's thread.
// Fails:  as Dataset::Fill and JobModel.
// Why:    a pure function of (weights, seed, step, slot), so that any worker may compute any slot, any number of times.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/config/job/forward.h"
#include "monitoring/trace.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"
#include "worker/device/job_model.h"

namespace capstan::train {

// Time spent on slots, by phase. `forward` includes waiting for weights.
struct PhaseTimes {
  std::chrono::steady_clock::duration data{}, forward{}, backward{};
};

class SlotComputer {
 public:
  // All arguments outlive this object. `lane` may be null.
  SlotComputer(const JobConfig& config, const Dataset& data, JobModel& model, monitoring::TraceLane* lane = nullptr);

  // Returns the samples of the slot at this step; valid until the next call.
  std::span<const std::uint64_t> Samples(Step step, SlotIndex slot);
  // Computes the mean gradient over `samples` (not empty), times `loss_scale`. `hooks.need_weights` is called only in
  // the first micro-batch, `hooks.gradient_ready` and `hooks.gradient_ready_from` only in the last.
  Result<nn::LossSums> Gradient(Step step, SlotIndex slot, std::span<const std::uint64_t> samples, float loss_scale,
                                const WeightsView& weights, float* gradient, const nn::Hooks& hooks);
  // Whether this step validates, before its update: every eval_every steps and at the last one.
  bool Validates(Step step) const;
  // Returns the times spent since the last call.
  PhaseTimes TakeTimes() { return std::exchange(times_, {}); }
  // Returns the loss on this slot's share of the validation set.
  Result<nn::LossSums> Validate(SlotIndex slot, const WeightsView& weights, const nn::Hooks& hooks);

 private:
  Result<nn::Batch> FillBatch(std::span<const std::uint64_t> samples, Split split, const DrawKey& key);

  const JobConfig& config_;
  const Dataset& data_;
  JobModel& model_;
  monitoring::TraceLane* const lane_;
  SamplerSpec sampler_;
  std::vector<std::uint64_t> samples_, validation_samples_;
  BatchBuffer buffer_;
  PhaseTimes times_;
};

// Returns the most samples that a slot of this job gives to the model at once, in training or validation.
std::uint64_t MicroBatchMax(const JobConfig& config, const Dataset& data);

}  // namespace capstan::train
