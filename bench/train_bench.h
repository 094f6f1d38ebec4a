// PlanTraining: training speed of the models, next to PyTorch on the same machine.
//
// Kind:   a plan that runs for minutes and forks processes, so measure it while this one has no other thread.
// Fails:  a benchmark process that ended or did not answer; kInvalid: `python` has no PyTorch.
// Why:    every worker computes with one thread, and so does every process of PyTorch. If `python` is empty and
//         Debian's PyTorch is not installed, the figures have no limit.
#pragma once

#include <string>
#include <vector>

#include "bench/plan.h"
#include "common/base/status.h"

namespace capstan::bench {

enum class Beside { kPyTorch, kNothing };

struct TrainOptions {
  std::vector<std::string> models = {"mlp", "gpt"};
  std::vector<std::string> jobs = {"compute", "compute-bf16", "1s1w", "1s1w-bf16", "2s2w", "2w-allreduce"};
  int rounds = 3;
  double seconds = 2.0;  // about, for each measurement
  Beside beside = Beside::kPyTorch;
  std::string python;  // interpreter whose PyTorch to compare with; empty: Debian's
};

// Asks the interpreter for its PyTorch, but trains nothing yet.
Result<Plan> PlanTraining(const TrainOptions& options);

}  // namespace capstan::bench
