// OptimizerRule: which optimizer a job uses, and with which constants.
//
// Kind:   values.
// Why:    the arithmetic of a block needs a handful of numbers, not the job file. They stay double until an
//         update turns them into its fp32 factors: 1 - fp32(0.999) is off by 1.3e-5 of itself.
#pragma once

#include "common/job_config.h"

namespace capstan::server {

using capstan::OptimizerKind;

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.0;  // kMomentum
  bool nesterov = false;  // kMomentum
  double beta1 = 0.9;     // kAdam, kAdamW
  double beta2 = 0.999;
  double eps = 1e-8;          // kAdam, kAdamW, kAdagrad
  double weight_decay = 0.0;  // kAdamW: decoupled from the gradient; the others: L2, added to it
};

// fp32 arrays of state that a weight has: 0, 1 or 2. Their initial value is zero.
int StateCount(OptimizerKind kind);

OptimizerRule MakeOptimizerRule(const OptimizerSection& section);

}  // namespace capstan::server
