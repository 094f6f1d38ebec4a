// AllBenches: the benchmarks that `capstan bench` can run.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "bench/plan.h"
#include "common/base/status.h"

namespace capstan::bench {

enum class Extent {
  kWhole,
  kQuick,  // about a minute on 2 cores: fewer sizes, fewer or shorter rounds
};

struct BenchRequest {
  Extent extent = Extent::kWhole;
  std::string python;  // for `train`: interpreter whose PyTorch to compare with; empty: Debian's
};

struct Bench {
  std::string name, help;
  std::string left_out;  // what kQuick leaves out
  std::function<Result<Plan>(const BenchRequest&)> plan;
  bool uses_python = false;
};

std::span<const Bench> AllBenches();

}  // namespace capstan::bench
