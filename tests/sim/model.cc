#include "tests/sim/model.h"

#include <cmath>
#include <limits>
#include <span>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/config/job/allreduce_section.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "server/shard/admission.h"

namespace capstan::sim {

EditableJobConfig MakeConfig(const ClusterOptions& options) {
  EditableJobConfig config;
  config.job.mode = options.mode;
  config.job.staleness = options.mode == Mode::kBounded ? options.staleness : config.job.staleness;
  if (options.mode == Mode::kSync) config.job.aggregation = options.aggregation;
  if (options.local) config.allreduce.local_reduce = LocalReduce::kGloo;
  if (options.durable) config.job.acknowledge = Acknowledge::kDurable;
  config.job.steps = options.steps;
  config.job.slots = options.slots;
  config.job.global_batch = options.slots;
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.kind = options.optimizer;
  config.optimizer.amsgrad = options.optimizer == OptimizerKind::kAdam;
  config.optimizer.centered = true;  // rmsprop: with a momentum, three states
  if (TakesTrustRatio(options.optimizer)) config.optimizer.weight_decay = 0.01;
  config.optimizer.trust_coefficient = 1.0;
  config.optimizer.lr = 0.05;
  config.optimizer.states = 1;
  config.optimizer.clip_norm = options.clip_norm;
  config.schedule.kind = ScheduleKind::kCosine;
  config.schedule.warmup_steps = 2;
  config.cluster.servers = options.shards;
  config.cluster.workers = options.workers;
  config.cluster.min_workers = 1;
  config.snapshot.every_steps = options.snapshot_every_steps;
  config.snapshot.every_seconds = options.snapshot_every_seconds;
  config.data.kind = DataKind::kSynthetic;
  config.model.kind = ModelKind::kMlp;
  config.worker.precision = options.precision;
  config.limits.stall = options.line_bytes_per_second > 0 ? 1500 : 150;  // a job that hangs fails by name
  config.limits.join = 90;  // longer than all faults together, with clogs and clock jumps
  config.limits.lease = 4;
  if (options.optimizer == OptimizerKind::kExternal) {  // the program's own are the model and the learning rate
    config.model.kind = ModelKind::kClient;
    config.schedule = {};
  }
  return config;
}

std::vector<TensorSpec> MakeCatalog(const ClusterOptions& options) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < options.tensor_sizes.size(); ++i) {
    const std::uint32_t group = options.groups ? 1 + static_cast<std::uint32_t>(i) % 2 : 0;
    tensors.push_back(
        {"t" + std::to_string(i), {options.tensor_sizes[i]}, {InitKind::kUniform, 1.0F}, i % 2 == 0, group});
    if (TakesTrustRatio(options.optimizer) && i % 4 != 3)
      tensors.back().shape.push_back(1);  // lars skips one-dimensional tensors
    if (options.given && i % 3 != 2) tensors.back().init = {InitKind::kFromWorker, 0.0F};
    if (options.statistics && i % 2 == 1) tensors.back().kind = TensorKind::kStatistic;
  }
  return tensors;
}

std::vector<HyperParameters> HyperParametersOf(const ClusterOptions& options, Step step) {
  std::vector<HyperParameters> groups;
  for (std::uint64_t group = 0; options.groups && group < 2; ++group) {
    const Random4 r = Philox(8, group, step.value);
    const auto draw = [&](int i) { return static_cast<double>(UnitFloat(r[i])); };
    groups.push_back({0.1 * draw(0), 0.9 * draw(1), 0.9 * draw(1), 0.99, 1e-6 + 1e-3 * draw(2), 0.1 * draw(3), false});
    groups.back().alpha = 0.9 * draw(1);
  }
  return groups;
}

Clipping ClippingOf(const ClusterOptions& options, Step step) {
  const auto draw = static_cast<double>(UnitFloat(Philox(41, step.value, 0)[0]));
  if (options.program_clip == ClusterOptions::ProgramClip::kNone || draw < 0.2) return {};
  if (options.program_clip == ClusterOptions::ProgramClip::kNorm) return {.norm = 3.0 * draw};
  return {.value = draw};
}

float NormFactor(const ClusterOptions& options, double norm_before) {
  if (options.program_clip == ClusterOptions::ProgramClip::kNone || !std::isfinite(norm_before)) return 1.0F;
  return static_cast<float>(1.0 / (1.0 + norm_before));
}

float FirstWeight(std::uint32_t kind, std::uint64_t element) { return UnitFloat(Philox(17, element, kind)[0]) - 0.5F; }

std::string NextProgramState(const std::string& state, Step step) {
  const std::uint64_t key = Hash64(std::as_bytes(std::span(state)));
  std::string next;
  for (std::uint64_t i = 0; i < 8 + key % 5; ++i) next += static_cast<char>(PhiloxKey(key, step.value, i) & 0xff);
  return next;
}

std::string ProgramStateAt(Step step) {
  std::string state;
  for (Step s; s < step; s = s.Next()) state = NextProgramState(state, s);
  return state;
}

namespace {

bool IsInfinite(const ClusterOptions& options, Step step, SlotIndex slot) {
  return options.non_finite > 0 && static_cast<double>(UnitFloat(Philox(31, step.value, slot)[0])) < options.non_finite;
}

}  // namespace

std::uint64_t SamplesOf(const ClusterOptions& options, Step step, SlotIndex slot) {
  if (!HasGlobalSteps(options.mode) && IsInfinite(options, step, slot)) return 0;
  const std::uint64_t draw = PhiloxKey(99, step.value, slot);
  if (options.empty_slots && draw % 3 == 0) return 0;
  return 1 + draw % 3;
}

float GradientOf(const ClusterOptions& options, float weight, Step step, SlotIndex slot, std::uint64_t element) {
  if (element == 0 && IsInfinite(options, step, slot)) return std::numeric_limits<float>::infinity();
  const Random4 r = Philox(7, element, step.value * 1000 + slot);
  return (UnitFloat(r[0]) - 0.5F) * 2.0F + weight * (UnitFloat(r[1]) - 0.3F);
}

}  // namespace capstan::sim
