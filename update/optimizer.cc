#include "update/optimizer.h"

#include "common/config/job/optimizer_section.h"

namespace capstan {

int StateCount(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kExternal: return 0;
    case OptimizerKind::kMomentum: return 1;
    case OptimizerKind::kAdagrad: return 1;
    case OptimizerKind::kLars: return 1;
    case OptimizerKind::kAdam: return 2;
    case OptimizerKind::kAdamW: return 2;
    case OptimizerKind::kLamb: return 2;
  }
  return 0;
}

int KeptStates(const OptimizerRule& rule) {
  return rule.kind == OptimizerKind::kExternal ? rule.states : StateCount(rule.kind);
}

OptimizerRule MakeOptimizerRule(const OptimizerSection& section) {
  return {.kind = section.kind,
          .momentum = section.momentum,
          .nesterov = section.nesterov,
          .beta1 = section.beta1,
          .beta2 = section.beta2,
          .eps = section.eps,
          .weight_decay = section.weight_decay,
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
                      .weight_decay = group.weight_decay},
                     group.learning_rate});
  }
  return rules;
}

}  // namespace capstan
