#include "bench/memory_bench.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bench/bench_cluster.h"
#include "bench/push_pull_worker.h"

namespace capstan::bench {
namespace {

constexpr std::size_t kTensorBytes = std::size_t{16} << 20;
// Bytes per parameter on a shard: weights and two moments of AdamW in fp32, their next version, the sum of gradients.
constexpr double kShardBytes = 12 + 12 + 4;
// Bytes per parameter in a worker: weights and a gradient, in fp32.
constexpr double kWorkerBytes = 4 + 4;

const char* const kJobFile =
    "[job]\nname = \"bench\"\nmode = \"sync\"\nsteps = 1000000\nglobal_batch = 1\n[model]\nkind = \"mlp\"\n"
    "[data]\nkind = \"synthetic\"\n[optimizer]\nkind = \"adamw\"\n[snapshot]\nevery_seconds = 0\n";

// The readings of a round, in bytes per parameter.
enum MemoryReading : std::size_t { kShardNow, kShardPeak, kWorkerNow, kWorkerPeak };

Result<Readings> MeasureJob(const MemoryOptions& options) {
  PushPullLoad load{.tensor_bytes = kTensorBytes, .warmup_rounds = options.steps};
  load.tensors = std::max<std::size_t>(1, (options.model_mib << 20) / kTensorBytes);
  const double parameters = static_cast<double>(load.model_bytes() / sizeof(float));
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster, BenchCluster::Start(kJobFile, Carrier::kTcp));
  ChildProcess worker = ChildProcess::Fork(
      [&](Channel& parent) { return RunPushPullWorker(parent, cluster->coordinator(), "", "bench", load); });
  CAPSTAN_RETURN_IF_ERROR(worker.channel().Receive(std::chrono::minutes(5)).status());
  const ResidentBytes shard = cluster->ShardMemory(), own = worker.Memory();
  Readings readings;
  for (const std::uint64_t bytes : {shard.now, shard.peak, own.now, own.peak}) {
    readings.push_back(static_cast<double>(bytes) / parameters);
  }
  return readings;
}

Row RowOf(const std::string& name, MemoryReading reading, double design) {
  return {.name = "memory/" + name,
          .unit = "bytes/parameter",
          .limit_name = "the count by design (less is better)",
          .needs = {0},
          .sample = [=](const std::vector<Readings>& readings) {
            return Sample{readings[0][reading], design};
          }};
}

}  // namespace

Plan PlanMemory(const MemoryOptions& options) {
  RowGroup group;
  group.measurements = {[options] { return MeasureJob(options); }};
  group.rows = {RowOf("shard/adamw", kShardNow, kShardBytes), RowOf("shard/adamw-peak", kShardPeak, kShardBytes),
                RowOf("worker", kWorkerNow, kWorkerBytes), RowOf("worker-peak", kWorkerPeak, kWorkerBytes)};
  return {{std::move(group)}, options.rounds};
}

}  // namespace capstan::bench
