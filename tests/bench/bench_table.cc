// AllBenches: what `capstan bench` can run.
#include <array>

#include "cli/bench_command.h"
#include "tests/bench/apply_bench.h"

namespace capstan::cli {

std::span<const Bench> AllBenches() {
  static const std::array<Bench, 1> kBenches = {{
      {"apply", "a shard's fused reduce-and-update pass, beside the memory bandwidth",
       [] { return bench::MeasureApply({}); }},
  }};
  return kBenches;
}

}  // namespace capstan::cli
