#include "server/optimizer.h"

namespace capstan::server {

int StateCount(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return 0;
    case OptimizerKind::kMomentum: return 1;
    case OptimizerKind::kAdagrad: return 1;
    case OptimizerKind::kAdam: return 2;
    case OptimizerKind::kAdamW: return 2;
  }
  return 0;
}

OptimizerRule MakeOptimizerRule(const OptimizerSection& section) {
  return {.kind = section.kind,
          .momentum = section.momentum,
          .nesterov = section.nesterov,
          .beta1 = section.beta1,
          .beta2 = section.beta2,
          .eps = section.eps,
          .weight_decay = section.weight_decay};
}

}  // namespace capstan::server
