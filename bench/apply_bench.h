// PlanApply: how fast a shard updates its blocks, next to a copy of as many bytes: on one core, and on all of them.
//
// Kind:   a plan that runs for seconds on the caller's thread and on others, which it joins.
// Limits: memory of up to 13 times the model's bytes.
// Why:    the pass reads and writes every array once: gradients, weights and optimizer states, old and new, and the sum
//         of the gradients. It also hashes the weights that workers pull. Its bytes per second of processor time, next
//         to those of the faster of two copies (memcpy, and one past the caches), show how much is left to gain.
#pragma once

#include <cstddef>

#include "bench/plan.h"

namespace capstan::bench {

struct ApplyOptions {
  std::size_t model_mib = 256;  // with all its arrays many times what the caches hold
  int rounds = 5;
};

Plan PlanApply(const ApplyOptions& options);

}  // namespace capstan::bench
