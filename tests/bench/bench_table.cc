// AllBenches: what `capstan bench` can run.
#include <array>

#include "cli/bench_command.h"
#include "tests/bench/allreduce_bench.h"
#include "tests/bench/apply_bench.h"
#include "tests/bench/memory_bench.h"
#include "tests/bench/push_pull_bench.h"
#include "tests/bench/snapshot_bench.h"
#include "tests/bench/train_bench.h"

namespace capstan::cli {

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 6> kBenches = {{
      {"allreduce",
       "an array reduced among worker processes, beside Gloo's own ring and plain sockets",
       {},
       [](const BenchParts& parts) { return bench::MeasureAllReduce({.parts = parts}); }},
      {"apply", "a shard's fused reduce-and-update pass, beside the memory bandwidth",
       [] { return bench::MeasureApply({}); }},
      {"memory", "resident bytes per parameter of a shard and of a worker", [] { return bench::MeasureMemory({}); }},
      {"push-pull", "gradients out and weights in, beside raw ZeroMQ and a bare key-value server",
       [] { return bench::MeasurePushPull({}); }},
      {"snapshot", "a snapshot on disk while a job trains, beside a raw write and beside the steps without one",
       [] { return bench::MeasureSnapshot({}); }},
      {"train",
       "tokens and samples a second, beside PyTorch",
       {},
       [](const BenchParts& parts) { return bench::MeasureTraining({.parts = parts}); }},
  }};
  return kBenches;
}

}  // namespace capstan::cli
