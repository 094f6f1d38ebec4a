// PlanApply: how close the fused reduce-and-update pass comes to the memory bandwidth of one core.
//
// Kind:   a plan that runs for seconds on the caller's thread.
// Limits: memory of about 9 times the model's bytes.
// Why:    the pass reads and writes every array once. Its bytes per second, next to those of a kernel that only streams
//         as many arrays in the same directions, show how much is left to gain.
#pragma once

#include <cstddef>

#include "bench/plan.h"

namespace capstan::bench {

struct ApplyOptions {
  std::size_t model_mib = 256;
  int rounds = 5;
  int passes = 3;  // over the model in each round; each block's best pass counts, for the limit and for the update
};

Plan PlanApply(const ApplyOptions& options);

}  // namespace capstan::bench
