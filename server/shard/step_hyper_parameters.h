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
  // Takes the checked set of a push of `node`. Empty: the job file sets the hyper-parameters.
  Status Take(Step step, Node node, const std::vector<HyperParameters>& groups);
  // Empty if there were none.
  const std::vector<HyperParameters>& groups() const { return groups_; }
  // 0 if there were none.
  std::uint64_t hash() const { return hash_; }
  // Forgets the set, for the next step.
  void Clear();

 private:
  std::vector<HyperParameters> groups_;
  Node from_;
  std::uint64_t hash_ = 0;
};

}  // namespace capstan::server
