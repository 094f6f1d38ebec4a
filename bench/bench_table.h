// AllBenches: the benchmarks that `capstan bench` can run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

struct Bench {
  std::string name, help;
  std::function<Result<std::vector<Figure>>()> run;
  std::function<Result<std::vector<Figure>>(const Parts&)> run_parts = {};  // instead of `run`, if it has parts
};

std::span<const Bench> AllBenches();

}  // namespace capstan::bench
