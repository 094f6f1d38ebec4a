#include "worker/train/slot_computer.h"

#include <algorithm>

#include "common/config/job/job_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"

namespace capstan::train {

namespace {

// Returns how many validation samples the model gets at once. The number depends on the job file only, not on the size
// of the training data, which may be smaller than a slot's share of a global batch.
std::uint64_t ValidationBatch(const JobConfig& config) {
  const std::uint64_t slot_batch = (config.job.global_batch + config.job.slots - 1) / config.job.slots;
  return std::max<std::uint64_t>(1, slot_batch / config.worker.accumulate);
}

}  // namespace

std::uint64_t MicroBatchMax(const JobConfig& config, const Dataset& data) {
  const SamplerSpec sampler{config.job.seed, data.count(Split::kTraining), config.job.global_batch, config.job.slots};
  const std::uint64_t slot_batch =
      std::max<std::uint64_t>(1, SlotShare(BatchSize(sampler, Step{0}), config.job.slots, 0).count());
  const std::uint64_t parts = std::min<std::uint64_t>(config.worker.accumulate, slot_batch);
  const std::uint64_t training = (slot_batch + parts - 1) / parts;
  if (config.job.eval_every == 0) return training;
  const std::uint64_t share = ValidationShare(data.count(Split::kValidation), config.job.slots, 0).count();
  return std::max(training, std::min(share, ValidationBatch(config)));
}

SlotComputer::SlotComputer(const JobConfig& config, const Dataset& data, JobModel& model, monitoring::TraceLane* lane)
    : config_(config),
      data_(data),
      model_(model),
      lane_(lane),
      sampler_{config.job.seed, data.count(Split::kTraining), config.job.global_batch, config.job.slots} {}

std::span<const std::uint64_t> SlotComputer::Samples(Step step, SlotIndex slot) {
  SlotSamples(sampler_, step, slot, &samples_);
  return samples_;
}

Result<nn::Batch> SlotComputer::FillBatch(std::span<const std::uint64_t> samples, Split split, const DrawKey& key) {
  const auto begin = std::chrono::steady_clock::now();
  CAPSTAN_RETURN_IF_ERROR(data_.Fill(samples, split, key, &buffer_));
  const auto end = std::chrono::steady_clock::now();
  times_.data += end - begin;
  if (lane_ != nullptr) lane_->Add("data", begin, end);
  return nn::Batch{static_cast<std::int64_t>(buffer_.samples), buffer_.inputs, buffer_.tokens, buffer_.targets};
}

Result<nn::LossSums> SlotComputer::Gradient(Step step, SlotIndex slot, std::span<const std::uint64_t> samples,
                                            float loss_scale, const WeightsView& weights, float* gradient,
                                            const nn::Hooks& hooks) {
  const SampleSpec& spec = data_.spec();
  const std::uint64_t per_sample = spec.form == SampleForm::kTokens ? spec.context : 1;
  const auto parts = static_cast<std::uint32_t>(std::min<std::uint64_t>(config_.worker.accumulate, samples.size()));
  nn::TrainOptions options;
  options.gradient_scale = static_cast<double>(loss_scale) / static_cast<double>(samples.size() * per_sample);
  const DrawKey draw{config_.job.seed, step.value, slot};
  nn::LossSums sums;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const SampleRange range = SlotShare(samples.size(), parts, part);
    CAPSTAN_ASSIGN_OR_RETURN(const nn::Batch batch,
                             FillBatch(samples.subspan(range.first, range.count()), Split::kTraining, draw));
    options.sample_share = static_cast<double>(range.count()) / static_cast<double>(samples.size());
    options.mode = part == 0 ? nn::GradientMode::kReplace : nn::GradientMode::kAdd;
    nn::Hooks part_hooks;
    if (part == 0) part_hooks.need_weights = hooks.need_weights;
    if (part + 1 == parts) {
      part_hooks.gradient_ready = hooks.gradient_ready;
      part_hooks.gradient_ready_from = hooks.gradient_ready_from;
    }
    const nn::StepKey key{config_.job.seed, step.value, slot, part};
    const auto begin = std::chrono::steady_clock::now();
    auto turn = begin;
    part_hooks.backward_begins = [&turn] { turn = std::chrono::steady_clock::now(); };
    options.deliver = part + 1 == parts;
    CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums one, model_.Train(weights, gradient, batch, key, options, part_hooks));
    const auto end = std::chrono::steady_clock::now();
    times_.forward += turn - begin;
    times_.backward += end - turn;
    if (lane_ != nullptr) lane_->Add("forward", begin, turn, step.value);
    if (lane_ != nullptr) lane_->Add("backward", turn, end, step.value);
    sums.loss += one.loss;
    sums.count += one.count;
    sums.correct += one.correct;
  }
  return sums;
}

bool SlotComputer::Validates(Step step) const {
  const std::uint64_t every = config_.job.eval_every;
  return every > 0 && (step.value % every == 0 || step.value + 1 == config_.job.steps);
}

Result<nn::LossSums> SlotComputer::Validate(SlotIndex slot, const WeightsView& weights, const nn::Hooks& hooks) {
  const SampleRange share = ValidationShare(data_.count(Split::kValidation), config_.job.slots, slot);
  const std::uint64_t batch_max = ValidationBatch(config_);
  const auto begin = std::chrono::steady_clock::now();
  nn::LossSums sums;
  for (std::uint64_t first = share.first; first < share.last; first += batch_max) {
    validation_samples_.clear();
    for (std::uint64_t i = first; i < std::min(first + batch_max, share.last); ++i) validation_samples_.push_back(i);
    CAPSTAN_ASSIGN_OR_RETURN(const nn::Batch batch, FillBatch(validation_samples_, Split::kValidation, {}));
    CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums one,
                             model_.Evaluate(weights, batch, first == share.first ? hooks : nn::Hooks{}));
    sums.loss += one.loss;
    sums.count += one.count;
    sums.correct += one.correct;
  }
  if (lane_ != nullptr) lane_->Add("validation", begin, std::chrono::steady_clock::now());
  return sums;
}

}  // namespace capstan::train
