// StepHyperParameters: those of the step under way, where they come with the pushes and not from the job file.
//
// Kind:   owned by the Shard.
// Fails:  kInvalid: another set than the step's first; it names both slots, the group, the field and both values.
// Why:    one step is one update. The first set counts, whoever brings it, and Redo uses it again; two sets in one step
//         are two opinions on what the program does, and neither may win by arriving first on one shard and second on
//         another: that the coordinator sees by hash().
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
  // The set that came with a push of `node`, checked already. Empty: the job file owns them.
  Status Take(Step step, Node node, const std::vector<HyperParameters>& groups);
  // Empty: none came.
  const std::vector<HyperParameters>& groups() const { return groups_; }
  // 0: none came.
  std::uint64_t hash() const { return hash_; }
  // For the next step.
  void Clear();

 private:
  std::vector<HyperParameters> groups_;
  Node from_;
  std::uint64_t hash_ = 0;
};

}  // namespace capstan::server
