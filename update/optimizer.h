// OptimizerRule: a job's optimizer and its constants.
//
// Kind:   values.
// Why:    the arithmetic of a block needs a few numbers, not the job file. The numbers stay double until an update
//         computes its fp32 factors: 1 - fp32(0.999) has a relative error of 1.3e-5.
#pragma once

#include <capstan/hyper_parameters.h>

#include <vector>

#include "common/config/job/forward.h"
#include "common/config/job/optimizer_kind.h"

namespace capstan {

using capstan::OptimizerKind;

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.0;  // kMomentum, kLars
  bool nesterov = false;  // kMomentum
  double beta1 = 0.9;     // kAdam, kAdamW, kLamb
  double beta2 = 0.999;
  double eps = 1e-8;          // kAdam, kAdamW, kAdagrad, kLamb
  double weight_decay = 0.0;  // kAdamW, kLamb: decoupled from the gradient; the others: L2, added to it
  int states = 0;             // kExternal: arrays of the program's state that shards keep besides the weights
};

// Returns the number of fp32 state arrays that an optimizer's update reads and writes: 0, 1 or 2. They start as zeros.
int StateCount(OptimizerKind kind);
// Returns the number of fp32 state arrays that are kept with the weights.
int KeptStates(const OptimizerRule& rule);

OptimizerRule MakeOptimizerRule(const OptimizerSection& section);

// How the tensors of one group are updated in one step.
struct GroupRule {
  OptimizerRule rule;
  double learning_rate = 0.0;
};

// Returns one rule for each entry of `hyper` (the values that the training program set), all of `job`'s kind. If
// `hyper` is empty, returns one rule: `job` with `learning_rate`.
std::vector<GroupRule> MakeGroupRules(const OptimizerRule& job, float learning_rate,
                                      const std::vector<HyperParameters>& hyper);

}  // namespace capstan
