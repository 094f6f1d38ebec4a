// MeasureTraining: training speed of the models, next to PyTorch on the same machine.
//
// Kind:   runs for minutes; forks processes, so call it while this one has no other thread.
// Fails:  a benchmark process that ended or did not answer; kInvalid: no figure's name contains `parts.only`, or
//         `parts.python` has no PyTorch.
// Why:    every worker computes with one thread, and so does every process of PyTorch. If `parts.python` is empty and
//         Debian's PyTorch is not installed, the figures have no limit.
#pragma once

#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

enum class Beside { kPyTorch, kNothing };

struct TrainOptions {
  int repetitions = 3;   // the median counts
  double seconds = 2.0;  // about, for each measurement
  Beside beside = Beside::kPyTorch;
  Parts parts = {};
};

Result<std::vector<Figure>> MeasureTraining(const TrainOptions& options);

}  // namespace capstan::bench
