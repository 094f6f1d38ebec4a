#include "worker/client/step_settings.h"

namespace capstan::client {

void StepSettings::Begin(Mode mode, const OptimizerSection& optimizer, std::uint32_t group_count) {
  begun_ = true;
  mode_ = mode;
  optimizer_ = optimizer;
  group_count_ = group_count;
}

Status StepSettings::TakeHyperParameters(const std::vector<HyperParameters>& groups) {
  if (!begun_) return Invalid("SetHyperParameters comes after Declare");
  if (settled_) {
    return Invalid("SetHyperParameters comes after NextWork and before the round's first gradient is final");
  }
  Status status = CheckHyperParameters(groups, group_count_);
  const bool no_momentum = optimizer_.kind == OptimizerKind::kSgd ||
                           (optimizer_.kind == OptimizerKind::kRmsprop && !KeepsMomentum(optimizer_));
  if (status.ok() && no_momentum) status = CheckNoMomentum(groups);
  if (!status.ok()) return Invalid("SetHyperParameters: " + status.message());
  has_hyper_parameters_ = true;
  return {};
}

Status StepSettings::Settle(const char* call) {
  if (group_count_ > 0 && !has_hyper_parameters_) {
    return Invalid(std::string(call) + " comes after SetHyperParameters: the tensors are declared with groups");
  }
  settled_ = true;
  return {};
}

Status StepSettings::TakeClipping(const char* call, const Clipping& clipping) {
  if (!begun_) return Invalid(std::string(call) + " comes after Declare");
  if (mode_ != Mode::kSync) {
    return Invalid(std::string(call) +
                   ": only mode sync has a gradient of a whole step to clip; set optimizer.clip_norm in the job file, "
                   "which clips each slot's");
  }
  if (const Status status = CheckClipping(clipping); !status.ok()) {
    return Invalid(std::string(call) + ": " + status.message());
  }
  if (clipping.value > 0 && optimizer_.clip_norm > 0) {
    return Invalid(std::string(call) +
                   ": the job file clips each step by its norm; leave optimizer.clip_norm out of it");
  }
  clipping_ = clipping;
  return {};
}

}  // namespace capstan::client
