#include "update/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/loss_scale.h"
#include "common/data/metrics_check.h"
#include "common/wire/messages/prepared.h"
#include "update/schedule.h"
#include "update/trust_ratios.h"

namespace capstan {

SegmentOrder::SegmentOrder(const Catalog& catalog, std::uint32_t shard_count) : counts_(shard_count, 0) {
  const std::vector<ShardIndex> placement = PlaceBlocks(catalog, shard_count);
  places_.reserve(catalog.segments().size());
  for (const Segment& segment : catalog.segments()) {
    const ShardIndex shard = placement[segment.block];
    places_.push_back({shard, counts_[shard]++});
  }
}

StepParameters ParametersOf(const JobConfig& config, Step step, std::uint64_t updates) {
  StepParameters parameters;
  parameters.updates = updates;
  parameters.learning_rate =
      LearningRate(MakeScheduleRule(config.schedule), config.optimizer.lr, updates, config.job.steps);
  parameters.stop = step.value >= config.job.steps;
  if (config.worker.precision == Precision::kFp16) parameters.loss_scale = kFirstLossScale;
  return parameters;
}

namespace {

// A metric over the slots of a step.
struct MetricSum {
  std::string name;
  double sum = 0, weight = 0;
  std::size_t slots = 0;             // that reported it
  const SlotReport* last = nullptr;  // of these
};

// Adds up metrics of equal names; sorted by name.
std::vector<MetricSum> SumsOf(const std::vector<SlotReport>& reports) {
  std::map<std::string, MetricSum> all;
  for (const SlotReport& report : reports) {
    for (const Metric& metric : report.metrics) {
      if (!IsMetricName(metric.name)) continue;  // shards refuse such names; never write one into JSON
      MetricSum& sum = all[metric.name];
      sum.sum += metric.sum;
      sum.weight += metric.weight;
      if (std::exchange(sum.last, &report) != &report) ++sum.slots;
    }
  }
  std::vector<MetricSum> sums;
  for (auto& [name, sum] : all) {
    sum.name = name;
    sums.push_back(std::move(sum));
  }
  return sums;
}

// Keeps kMetricsMax names, those that most slots report: one worker with names of its own takes no room from the
// others, and writes no megabytes.
void AddMetrics(const std::vector<SlotReport>& reports, StepRecord* record) {
  std::vector<MetricSum> sums = SumsOf(reports);
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.slots > b.slots; });
  const std::size_t kept = std::min(sums.size(), kMetricsMax);
  record->metrics_left_out = sums.size() - kept;
  for (std::size_t i = 0; i < kept; ++i) {
    const MetricSum& metric = sums[i];
    record->metrics[metric.name] =
        metric.weight > 0 ? metric.sum / metric.weight : std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

void AddSlotReports(std::vector<SlotReport> reports, StepRecord* record) {
  std::sort(reports.begin(), reports.end(), [](const SlotReport& a, const SlotReport& b) { return a.slot < b.slot; });
  double loss = 0, validation_loss = 0;
  std::uint64_t predictions = 0, validation_predictions = 0, correct = 0;
  for (const SlotReport& report : reports) {
    record->samples += report.samples;
    loss += report.loss_sum;
    predictions += report.predictions;
    validation_loss += report.validation_loss_sum;
    validation_predictions += report.validation_predictions;
    correct += report.validation_correct;
  }
  record->loss = predictions == 0 ? 0.0 : loss / static_cast<double>(predictions);
  if (validation_predictions > 0) {
    record->validation_loss = validation_loss / static_cast<double>(validation_predictions);
    record->validation_accuracy = static_cast<double>(correct) / static_cast<double>(validation_predictions);
  }
  AddMetrics(reports, record);
}

namespace {

struct GradientNorm {
  double norm = 0.0;
  std::string non_finite_tensor;  // first in catalog order; empty: none, or mode allreduce
};

// Returns the norm that the first worker reports; TwoReplicas checks that all workers report the same.
GradientNorm NormOfReplicas(const std::vector<SlotReport>& reports) {
  return {reports.empty() ? 0.0 : std::sqrt(reports.front().gradient_squares), {}};
}

std::uint64_t BitsOf(double number) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

// Describes a difference between the workers' replicas; empty if there is none.
std::string TwoReplicas(const std::vector<SlotReport>& reports) {
  for (const SlotReport& report : reports) {
    const SlotReport& first = reports.front();
    const bool same =
        BitsOf(report.gradient_squares) == BitsOf(first.gradient_squares) && report.replica_hash == first.replica_hash;
    if (same) continue;
    return "the workers of slots " + std::to_string(first.slot) + " and " + std::to_string(report.slot) +
           " have other sums of the gradient, or other weights; one of their machines may compute or remember "
           "wrongly; " +
           "--resume goes on from the newest snapshot";
  }
  return "";
}

GradientNorm NormOf(const Catalog& catalog, const SegmentOrder& order, const std::vector<const Prepared*>& prepared) {
  GradientNorm result;
  double squares = 0.0;
  order.ForEach([&](ShardIndex shard, std::size_t position, std::size_t segment) {
    const double value = prepared[shard]->report.segment_squares[position];
    if (!std::isfinite(value) && result.non_finite_tensor.empty()) {
      result.non_finite_tensor = catalog.tensors()[catalog.segments()[segment].tensor].name;
    }
    squares += value;
  });
  result.norm = std::sqrt(squares);
  return result;
}

// Describes a difference between the hyper-parameters in the pushes to two shards; empty if there is none. A shard that
// got none is not compared.
std::string TwoSets(const std::vector<const Prepared*>& prepared) {
  const Prepared* with = nullptr;
  for (const Prepared* one : prepared) {
    if (one->report.hyper_hash == 0) continue;
    if (with == nullptr) with = one;
    if (one->report.hyper_hash == with->report.hyper_hash) continue;
    return "the pushes to shards " + std::to_string(with->shard) + " and " + std::to_string(one->shard) +
           " came with different hyper-parameters; every worker is to set those of a step from its number alone, in a "
           "PyTorch script from trainer.global_step";
  }
  return "";
}

// Describes a difference between the program states that slots of two shards brought; empty if there is none.
std::string TwoStates(const std::vector<const Prepared*>& prepared) {
  const PrepareReport* with = nullptr;
  for (const Prepared* one : prepared) {
    const PrepareReport& report = one->report;
    if (report.program_state.empty()) continue;
    if (with == nullptr) with = &report;
    if (report.program_state == with->program_state) continue;
    return "slots " + std::to_string(with->program_slot) + " and " + std::to_string(report.program_slot) +
           " ended with different program states (" + std::to_string(with->program_state.size()) + " and " +
           std::to_string(report.program_state.size()) +
           " bytes); every worker is to make it from the state that it was handed and the step alone";
  }
  return "";
}

// Returns the first slot that has a gradient; null: there is none.
const SlotReport* FirstWithSamples(const std::vector<SlotReport>& reports) {
  const auto found =
      std::find_if(reports.begin(), reports.end(), [](const SlotReport& one) { return one.samples != 0; });
  return found == reports.end() ? nullptr : &*found;
}

// Describes a difference between the limits that slots brought for clipping; empty if there is none. The limits of a
// slot without samples do not count.
std::string TwoClippings(const std::vector<SlotReport>& reports) {
  const SlotReport* first = FirstWithSamples(reports);
  for (const SlotReport& report : reports) {
    if (report.samples == 0 || report.clipping == first->clipping) continue;
    return "slots " + std::to_string(first->slot) + " and " + std::to_string(report.slot) +
           " ended with different limits for clipping (" + TextOf(first->clipping) + ", and " +
           TextOf(report.clipping) + "); every worker is to set those of a step from its number alone";
  }
  return "";
}

// What limits the step's gradient. Without a limit of the program, the job file's applies.
Clipping ClippingOf(const JobConfig& config, const std::vector<SlotReport>& reports) {
  const SlotReport* const first = FirstWithSamples(reports);
  const Clipping given = first == nullptr ? Clipping() : first->clipping;
  return given == Clipping() ? Clipping{.norm = config.optimizer.clip_norm} : given;
}

// Returns the program's state after the step: the one that a slot brought, else that of `parameters`.
const std::string& ProgramStateOf(const std::vector<const Prepared*>& prepared, const StepParameters& parameters) {
  for (const Prepared* one : prepared) {
    if (!one->report.program_state.empty()) return one->report.program_state;
  }
  return parameters.program_state;
}

}  // namespace

Verdict Decide(const JobConfig& config, const Catalog& catalog, const SegmentOrder& order,
               const std::vector<const Prepared*>& prepared, std::uint32_t attempt, const StepParameters& parameters) {
  Verdict verdict;
  StepRecord& record = verdict.record;
  const Prepared& first = *prepared.front();
  record.generation = first.generation;
  record.step = first.step;
  record.learning_rate = static_cast<double>(parameters.learning_rate);
  record.loss_scale = static_cast<double>(parameters.loss_scale);
  std::vector<SlotReport> reports;
  for (const Prepared* one : prepared) {
    if (one->report.hyper_hash != 0) record.learning_rate = one->report.learning_rate;
    reports.insert(reports.end(), one->report.slots.begin(), one->report.slots.end());
  }
  for (const SlotReport& report : reports) {
    if (!std::isfinite(report.loss_sum)) verdict.suspects.push_back(report.slot);
  }
  std::sort(verdict.suspects.begin(), verdict.suspects.end());
  const bool replicas = WorkersUpdate(config.job.mode);
  const std::string differing = replicas ? TwoReplicas(reports) : "";
  const GradientNorm of_replicas = NormOfReplicas(reports);
  const std::string differing_clips = TwoClippings(reports);
  const Clipping clipping = ClippingOf(config, reports);
  AddSlotReports(std::move(reports), &record);
  for (const Prepared* one : prepared) {
    for (std::uint64_t samples : one->report.block_samples) {
      if (samples == record.samples) continue;
      verdict.kind = Verdict::Kind::kStop;
      verdict.reason = "step " + std::to_string(first.step.value) + ": shard " + std::to_string(one->shard) +
                       " added up the gradients of " + std::to_string(samples) + " samples, the slots report " +
                       std::to_string(record.samples) + "; some worker disagrees about the data";
      return verdict;
    }
  }
  for (const std::string& difference : {TwoSets(prepared), TwoStates(prepared), differing, differing_clips}) {
    if (difference.empty()) continue;
    verdict.kind = Verdict::Kind::kStop;
    verdict.reason = "step " + std::to_string(first.step.value) + ": " + difference;
    return verdict;
  }

  const GradientNorm gradient = replicas ? of_replicas : NormOf(catalog, order, prepared);
  record.gradient_norm = gradient.norm;
  const bool finite = gradient.non_finite_tensor.empty() && std::isfinite(gradient.norm);
  const bool scaled = config.worker.precision == Precision::kFp16;  // if so, the loss scale may be too large
  const bool can_shrink = scaled && parameters.loss_scale > kLeastLossScale;
  if (!finite && !can_shrink && config.job.on_nonfinite == NonFinitePolicy::kStop) {
    verdict.kind = Verdict::Kind::kStop;
    verdict.reason = "step " + std::to_string(first.step.value) + ": the gradient" +
                     (gradient.non_finite_tensor.empty() ? "" : " of tensor \"" + gradient.non_finite_tensor + "\"") +
                     " is not finite" +
                     (scaled ? ", even with the least loss scale: the model's own numbers may be too large for fp16; "
                               "worker.precision = \"bf16\" has the range of fp32"
                             : "") +
                     ". Look for NaN in the data or a learning rate that is too large, or set "
                     "job.on_nonfinite = \"skip\" to leave such steps out";
    return verdict;
  }
  const bool apply = finite && record.samples > 0;
  verdict.action = record.action = apply ? StepAction::kApply : StepAction::kSkip;
  verdict.next = ParametersOf(config, first.step.Next(), parameters.updates + (apply ? 1 : 0));
  verdict.next.program_state = ProgramStateOf(prepared, parameters);
  verdict.next.gradient_norm = finite ? gradient.norm : std::numeric_limits<double>::infinity();
  if (scaled) {
    LossScale scale{parameters.loss_scale, parameters.good_steps};
    scale.Count(finite);
    verdict.next.loss_scale = scale.scale;
    verdict.next.good_steps = scale.good_steps;
  }
  if (!apply || replicas) return verdict;  // the workers have decided about clipping and ratios already
  const double factor = clipping.norm > 0 ? clipping.norm / (gradient.norm + 1e-6) : 1.0;
  const auto clip = static_cast<float>(std::min(factor, 1.0));
  const bool clips = clip < 1.0F || clipping.value > 0;
  const std::uint32_t clipped_at = clips ? 1 : 0;  // the first attempt with the final clip factor and limit
  const std::uint32_t final_attempt = clipped_at + (TakesTrustRatio(config.optimizer.kind) ? 1 : 0);
  if (attempt >= final_attempt) return verdict;
  verdict.kind = Verdict::Kind::kRedo;
  verdict.clip = clip;
  verdict.clip_value = static_cast<float>(clipping.value);
  if (attempt >= clipped_at) verdict.trust_ratios = TrustRatios(config.optimizer, catalog, order, prepared);
  return verdict;
}

}  // namespace capstan
