// AllBenches: what `capstan bench` can run.
#include <array>

#include "cli/bench_command.h"
#include "tests/bench/apply_bench.h"
#include "tests/bench/memory_bench.h"
#include "tests/bench/push_pull_bench.h"
#include "tests/bench/train_bench.h"

namespace capstan::cli {

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 4> kBenches = {{
      {"apply", "a shard's fused reduce-and-update pass, beside the memory bandwidth",
       [] { return bench::MeasureApply({}); }},
      {"memory", "resident bytes per parameter of a shard and of a worker", [] { return bench::MeasureMemory({}); }},
      {"push-pull", "gradients out and weights in, beside raw ZeroMQ and a bare key-value server",
       [] { return bench::MeasurePushPull({}); }},
      {"train", "tokens and samples a second, beside PyTorch", [] { return bench::MeasureTraining({}); }},
  }};
  return kBenches;
}

}  // namespace capstan::cli
