#include "bench/bench_table.h"

#include <array>

#include "bench/allreduce_bench.h"
#include "bench/apply_bench.h"
#include "bench/memory_bench.h"
#include "bench/push_pull_bench.h"
#include "bench/scale_bench.h"
#include "bench/snapshot_bench.h"
#include "bench/train_bench.h"

namespace capstan::bench {
namespace {

constexpr double kQuickSeconds = 50.0;  // rounds that have begun are finished, so a run takes about a minute

Result<Plan> Quick(Result<Plan> plan) {
  if (plan.ok()) plan->seconds_max = kQuickSeconds;
  return plan;
}

// Each of these functions makes the plan of one benchmark. The words of `left_out` below describe its quick options.

Result<Plan> AllReduceOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanAllReduce({});
  return Quick(PlanAllReduce({.bytes = {64u << 10, 1u << 20, 16u << 20}, .rounds = 3, .seconds = 0.2}));
}

Result<Plan> ApplyOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanApply({});
  return Quick(PlanApply({.rounds = 3}));
}

Result<Plan> MemoryOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanMemory({});
  return Quick(PlanMemory({.rounds = 3}));
}

Result<Plan> PushPullOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanPushPull({});
  return Quick(PlanPushPull({.sizes = {1}, .tensor_bytes = {64u << 10, 4u << 20}, .seconds = 0.3}));
}

Result<Plan> ScaleOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanScale({});
  return Quick(PlanScale({.sizes = {{100, 10}, {1000, 100}}, .seconds = 0.02}));
}

Result<Plan> SnapshotOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanSnapshot({});
  return Quick(PlanSnapshot({.state_mib = 192, .every_steps = 40, .snapshots = 1}));
}

Result<Plan> TrainOf(const BenchRequest& request) {
  if (request.extent == Extent::kWhole) return PlanTraining({.python = request.python});
  return Quick(
      PlanTraining({.models = {"mlp"}, .jobs = {"compute", "2s2w"}, .seconds = 1.0, .python = request.python}));
}

}  // namespace

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 7> kBenches = {{
      {"allreduce", "an array reduced among worker processes, next to Gloo's own ring and plain sockets",
       "all sizes but 64 KiB, 1 MiB and 16 MiB; 2 of 5 rounds; a third of each measurement's time", AllReduceOf},
      {"apply", "a shard's update, next to a copy of as many bytes", "2 of 5 rounds", ApplyOf},
      {"memory", "resident bytes per parameter of a shard and of a worker", "2 of 5 rounds", MemoryOf},
      {"push-pull", "gradients out and weights in, next to raw ZeroMQ and a bare key-value server",
       "2 servers with 2 workers; all tensors but those of 64 KiB and 4 MiB; 0.7 of each measurement's second",
       PushPullOf},
      {"scale", "what a message, beat or step costs each core as workers and shards grow, and the exponent of it",
       "4,096 workers and 1,000 shards; more than half of each measurement's time", ScaleOf},
      {"snapshot", "a snapshot on disk while a job trains, next to a raw write and to the steps without one",
       "a state of 1 GiB, for which it takes one of 192 MiB; 1 of 2 snapshots in each round", SnapshotOf},
      {"train", "tokens and samples a second, next to PyTorch",
       "the model gpt; bf16; jobs of one worker, and of mode allreduce; half of each measurement's time", TrainOf,
       true},
  }};
  return kBenches;
}

}  // namespace capstan::bench
