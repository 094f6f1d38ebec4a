#include "common/config/job/optimizer_section.h"

#include "common/base/glob.h"

namespace capstan {

bool DecayApplies(const OptimizerSection& optimizer, const std::string& tensor_name) {
  for (const std::string& pattern : optimizer.no_decay) {
    if (GlobMatches(pattern, tensor_name)) return false;
  }
  return true;
}

bool KeepsMomentum(const OptimizerSection& optimizer) {
  return optimizer.kind == OptimizerKind::kRmsprop && optimizer.momentum > 0;
}

std::vector<std::string> StateNames(const OptimizerSection& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kExternal: return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kLars: return {"momentum_buffer"};
    case OptimizerKind::kAdagrad: return {"sum"};
    case OptimizerKind::kRmsprop: {
      std::vector<std::string> names{"square_avg"};
      if (KeepsMomentum(optimizer)) names.emplace_back("momentum_buffer");
      if (optimizer.centered) names.emplace_back("grad_avg");
      return names;
    }
    case OptimizerKind::kAdadelta: return {"square_avg", "acc_delta"};
    case OptimizerKind::kAdamax: return {"exp_avg", "exp_inf"};
    case OptimizerKind::kLion: return {"exp_avg"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      if (optimizer.amsgrad) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
      return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::kNadam:
    case OptimizerKind::kRadam:
    case OptimizerKind::kLamb: return {"exp_avg", "exp_avg_sq"};
  }
  return {};
}

}  // namespace capstan
