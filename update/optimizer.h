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

struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0.0;  // kMomentum, kRmsprop, kLars
  bool nesterov = false;  // kMomentum
  double beta1 = 0.9;     // kAdam, kAdamW, kAdamax, kNadam, kRadam, kLion, kLamb
  double beta2 = 0.999;
  double eps = 1e-8;          // all but kSgd, kMomentum, kLion, kLars
  double weight_decay = 0.0;  // kAdamW, kLion, kLamb: decoupled from the gradient; the others: L2, added to it
  double dampening = 0.0;     // kMomentum
  double alpha = 0.99;        // kRmsprop; kAdadelta: its rho
  double lr_decay = 0.0;      // kAdagrad
  double initial_accumulator_value = 0.0;  // kAdagrad
  double momentum_decay = 4e-3;            // kNadam
  bool maximize = false;                   // updates go up the gradient
  bool decoupled_weight_decay = false;     // kNadam, kRadam
  // These are the job's and the same for all groups, because the number of states follows from them.
  bool amsgrad = false;         // kAdam, kAdamW
  bool centered = false;        // kRmsprop
  bool keeps_momentum = false;  // kRmsprop
  int states = 0;               // kExternal: arrays of the program's state that shards keep besides the weights
};

// Returns the number of fp32 state arrays that an update reads and writes, at most kStatesMax. They start as zeros.
// StateNames() of its section has their names.
int StateCount(const OptimizerRule& rule);
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
