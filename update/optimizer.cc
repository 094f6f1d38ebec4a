#include "update/optimizer.h"

#include "common/config/job/optimizer_section.h"

namespace capstan {

int StateCount(const OptimizerRule& rule) {
  switch (rule.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kExternal: return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kLion:
    case OptimizerKind::kLars: return 1;
    case OptimizerKind::kRmsprop: return 1 + (rule.keeps_momentum ? 1 : 0) + (rule.centered ? 1 : 0);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: return rule.amsgrad ? 3 : 2;
    case OptimizerKind::kAdadelta:
    case OptimizerKind::kAdamax:
    case OptimizerKind::kNadam:
    case OptimizerKind::kRadam:
    case OptimizerKind::kLamb: return 2;
  }
  return 0;
}

int KeptStates(const OptimizerRule& rule) {
  return rule.kind == OptimizerKind::kExternal ? rule.states : StateCount(rule);
}

OptimizerRule MakeOptimizerRule(const OptimizerSection& section) {
  return {.kind = section.kind,
          .momentum = section.momentum,
          .nesterov = section.nesterov,
          .beta1 = section.beta1,
          .beta2 = section.beta2,
          .eps = section.eps,
          .weight_decay = section.weight_decay,
          .dampening = section.dampening,
          .alpha = section.alpha,
          .lr_decay = section.adagrad.lr_decay,
          .initial_accumulator_value = section.adagrad.initial_accumulator_value,
          .momentum_decay = section.momentum_decay,
          .maximize = section.maximize,
          .decoupled_weight_decay = section.decoupled_weight_decay,
          .amsgrad = section.amsgrad,
          .centered = section.centered,
          .keeps_momentum = KeepsMomentum(section),
          .states = static_cast<int>(section.states)};
}

std::vector<GroupRule> MakeGroupRules(const OptimizerRule& job, float learning_rate,
                                      const std::vector<HyperParameters>& hyper) {
  if (hyper.empty()) return {{job, static_cast<double>(learning_rate)}};
  std::vector<GroupRule> rules;
  rules.reserve(hyper.size());
  for (const HyperParameters& group : hyper) {
    rules.push_back({{.kind = job.kind,
                      .momentum = group.momentum,
                      .nesterov = group.nesterov,
                      .beta1 = group.beta1,
                      .beta2 = group.beta2,
                      .eps = group.eps,
                      .weight_decay = group.weight_decay,
                      .dampening = group.dampening,
                      .alpha = group.alpha,
                      .lr_decay = group.lr_decay,
                      .initial_accumulator_value = group.initial_accumulator_value,
                      .momentum_decay = group.momentum_decay,
                      .maximize = group.maximize,
                      .decoupled_weight_decay = group.decoupled_weight_decay,
                      .amsgrad = job.amsgrad,
                      .centered = job.centered,
                      .keeps_momentum = job.keeps_momentum},
                     group.learning_rate});
  }
  return rules;
}

}  // namespace capstan
