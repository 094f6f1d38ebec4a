#include "bench/bench_table.h"

#include <array>

#include "bench/allreduce_bench.h"
#include "bench/apply_bench.h"
#include "bench/memory_bench.h"
#include "bench/push_pull_bench.h"
#include "bench/snapshot_bench.h"
#include "bench/train_bench.h"

namespace capstan::bench {

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 6> kBenches = {{
      {"allreduce",
       "an array reduced among worker processes, beside Gloo's own ring and plain sockets",
       {},
       [](const Parts& parts) { return MeasureAllReduce({.parts = parts}); }},
      {"apply", "a shard's fused reduce-and-update pass, beside the memory bandwidth", [] { return MeasureApply({}); }},
      {"memory", "resident bytes per parameter of a shard and of a worker", [] { return MeasureMemory({}); }},
      {"push-pull", "gradients out and weights in, beside raw ZeroMQ and a bare key-value server",
       [] { return MeasurePushPull({}); }},
      {"snapshot", "a snapshot on disk while a job trains, beside a raw write and beside the steps without one",
       [] { return MeasureSnapshot({}); }},
      {"train",
       "tokens and samples a second, beside PyTorch",
       {},
       [](const Parts& parts) { return MeasureTraining({.parts = parts}); }},
  }};
  return kBenches;
}

}  // namespace capstan::bench
