#include "bench/memory_bench.h"

#include <algorithm>
#include <string>

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

Figure PerParameter(const std::string& name, std::uint64_t bytes, double parameters, double design) {
  const double value = static_cast<double>(bytes) / parameters;
  return {"memory/" + name, value, "bytes/parameter", design, "the count by design (less is better)", value / design};
}

}  // namespace

Result<std::vector<Figure>> MeasureMemory(const MemoryOptions& options) {
  PushPullLoad load{.tensor_bytes = kTensorBytes, .warmup_rounds = options.steps};
  load.tensors = std::max<std::size_t>(1, (options.model_mib << 20) / kTensorBytes);
  const double parameters = static_cast<double>(load.model_bytes() / sizeof(float));
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster, BenchCluster::Start(kJobFile, Carrier::kTcp));
  ChildProcess worker = ChildProcess::Fork(
      [&](Channel& parent) { return RunPushPullWorker(parent, cluster->coordinator(), "", "bench", load); });
  CAPSTAN_RETURN_IF_ERROR(worker.channel().Receive(std::chrono::minutes(5)).status());
  const ResidentBytes shard = cluster->ShardMemory(), own = worker.Memory();
  return std::vector<Figure>{PerParameter("shard/adamw", shard.now, parameters, kShardBytes),
                             PerParameter("shard/adamw-peak", shard.peak, parameters, kShardBytes),
                             PerParameter("worker", own.now, parameters, kWorkerBytes),
                             PerParameter("worker-peak", own.peak, parameters, kWorkerBytes)};
}

}  // namespace capstan::bench
