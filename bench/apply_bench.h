// MeasureApply: how near the fused reduce-and-update pass comes to the memory bandwidth of one core.
//
// Kind:   runs for seconds on the caller's thread.
// Limits: about 9 times the model's bytes of memory.
// Why:    the pass reads and writes every array once, so bytes over time, beside a kernel that does nothing but stream
//         as many arrays in the same directions, says what is left to gain.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/figure.h"

namespace capstan::bench {

struct ApplyOptions {
  std::size_t model_mib = 256;
  int rounds = 7;  // the best of them counts, for the limit as for the pass
};

std::vector<Figure> MeasureApply(const ApplyOptions& options);

}  // namespace capstan::bench
