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

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 7> kBenches = {{
      {"allreduce",
       "an array reduced among worker processes, next to Gloo's own ring and plain sockets",
       {},
       [](const Parts& parts) { return MeasureAllReduce({.parts = parts}); }},
      {"apply", "a shard's fused reduce-and-update pass, next to the memory bandwidth",
       [] { return MeasureApply({}); }},
      {"memory", "resident bytes per parameter of a shard and of a worker", [] { return MeasureMemory({}); }},
      {"push-pull",
       "gradients out and weights in, next to raw ZeroMQ and a bare key-value server",
       {},
       [](const Parts& parts) { return MeasurePushPull({.parts = parts}); }},
      {"scale",
       "what a message, beat or step costs each core as workers and shards grow, and the exponent of it",
       {},
       [](const Parts& parts) { return MeasureScale({.parts = parts}); }},
      {"snapshot", "a snapshot on disk while a job trains, next to a raw write and to the steps without one",
       [] { return MeasureSnapshot({}); }},
      {"train",
       "tokens and samples a second, next to PyTorch",
       {},
       [](const Parts& parts) { return MeasureTraining({.parts = parts}); }},
  }};
  return kBenches;
}

}  // namespace capstan::bench
