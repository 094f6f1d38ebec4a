// MeasureTraining: how fast the models train, beside PyTorch on the same machine.
//
// Kind:   runs for minutes; forks processes, so call it while this one has no other thread.
// Fails:  a process of the benchmark that ended or did not answer; kInvalid: no figure is named like `parts.only`, or
//         `parts.python` has no PyTorch.
// Why:    one thread computes in every worker, as in every process of PyTorch's. Where Debian's PyTorch is not
//         installed the figures come without a limit.
#pragma once

#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

enum class Beside { kPyTorch, kNothing };

struct TrainOptions {
  int repetitions = 3;   // the median of them counts
  double seconds = 2.0;  // about, of each measurement
  Beside beside = Beside::kPyTorch;
  Parts parts = {};
};

Result<std::vector<Figure>> MeasureTraining(const TrainOptions& options);

}  // namespace capstan::bench
