// StepHyperParameters: the current step's hyper-parameters, when pushes bring them.
//
// Kind:   owned by the Shard.
// Fails:  kInvalid: a set differs from the step's first one; the message names both slots, the group, the field and
//         both values.
// Why:    one step is one update. The shard uses the first set, also for Redo. Different sets in one step mean that
//         workers disagree. Each shard could have seen another set first, so the coordinator compares hash().
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/data/hyper_parameters.h"
#include "common/data/reduction_tree.h"

namespace capstan::server {

class StepHyperParameters {
 public:
  // Takes the set of a checked push of `node`. `groups` is empty if the job file sets the hyper-parameters.
  Status Take(Step step, Node node, const std::vector<HyperParameters>& groups);
  // The step's set; empty if no push brought one.
  const std::vector<HyperParameters>& groups() const { return groups_; }
  // The hash of the step's set; 0 if no push brought one.
  std::uint64_t hash() const { return hash_; }
  // Forgets the set, for the next step.
  void Clear();

 private:
  std::vector<HyperParameters> groups_;
  Node from_;
  std::uint64_t hash_ = 0;
};

}  // namespace capstan::server
