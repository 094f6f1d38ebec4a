#include "server/shard/step_hyper_parameters.h"

#include <string>

#include "common/wire/messages/push.h"

namespace capstan::server {

namespace {

std::string NameOf(Node node) {
  if (node.IsLeaf()) return "slot " + std::to_string(node.begin);
  return "slots " + std::to_string(node.begin) + " to " + std::to_string(node.end - 1);
}

}  // namespace

void StepHyperParameters::Take(const Push& push) {
  if (push.hyper.empty() || !groups_.empty()) return;
  groups_ = push.hyper;
  from_ = push.node;
  session_ = push.session;
  hash_ = HashOf(groups_);
}

Status StepHyperParameters::Compare(const Push& push) const {
  if (push.hyper.empty() || groups_.empty() || push.hyper == groups_) return {};
  const HyperDifference difference = FindDifference(groups_, push.hyper);
  return Invalid(
      "step " + std::to_string(push.step.value) + ": " + NameOf(push.node) + " came with " + difference.field + " " +
      difference.other + " of group " + std::to_string(difference.group) + ", " + NameOf(from_) + " before with " +
      difference.known +
      "; every worker is to set the hyper-parameters of a step from its number alone, and not from a counter "
      "of its own: in a PyTorch script from trainer.global_step");
}

void StepHyperParameters::Clear() {
  groups_.clear();
  session_ = {};
  hash_ = 0;
}

}  // namespace capstan::server
