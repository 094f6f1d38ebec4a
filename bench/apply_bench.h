// MeasureApply: how close the fused reduce-and-update pass comes to the memory bandwidth of one core.
//
// Kind:   runs for seconds on the caller's thread.
// Limits: memory of about 9 times the model's bytes.
// Why:    the pass reads and writes every array once. Its bytes per second, next to those of a kernel that only streams
//         as many arrays in the same directions, show how much is left to gain.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/figure.h"

namespace capstan::bench {

struct ApplyOptions {
  std::size_t model_mib = 256;
  int rounds = 7;  // the best round counts, for the limit and for the pass
};

std::vector<Figure> MeasureApply(const ApplyOptions& options);

}  // namespace capstan::bench
