#include "server/shard/step_hyper_parameters.h"

#include <string>

namespace capstan::server {

namespace {

std::string NameOf(Node node) {
  if (node.IsLeaf()) return "slot " + std::to_string(node.begin);
  return "slots " + std::to_string(node.begin) + " to " + std::to_string(node.end - 1);
}

}  // namespace

Status StepHyperParameters::Take(Step step, Node node, const std::vector<HyperParameters>& groups) {
  if (groups.empty() || groups == groups_) return {};
  if (groups_.empty()) {
    groups_ = groups;
    from_ = node;
    hash_ = HashOf(groups);
    return {};
  }
  const HyperDifference difference = FindDifference(groups_, groups);
  return Invalid(
      "step " + std::to_string(step.value) + ": " + NameOf(node) + " came with " + difference.field + " " +
      difference.other + " of group " + std::to_string(difference.group) + ", " + NameOf(from_) + " before with " +
      difference.known +
      "; every worker is to set the hyper-parameters of a step from its number alone, and not from a counter "
      "of its own: in a PyTorch script from trainer.global_step");
}

void StepHyperParameters::Clear() {
  groups_.clear();
  hash_ = 0;
}

}  // namespace capstan::server
