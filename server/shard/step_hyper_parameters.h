// StepHyperParameters: the current step's hyper-parameters, in a job whose pushes carry them.
//
// Kind:   owned by the Shard.
// Fails:  Compare: kInvalid, a push's set differs from the step's first one; the message names the slots of both
//         pushes, the group, the field and both values.
// Why:    one step is one update with one set: the first that arrives, also for a Redo. Different sets in one step mean
//         that workers disagree. Shards could receive different sets first, so the coordinator compares their hash().
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/data/hyper_parameters.h"
#include "common/data/reduction_tree.h"

namespace capstan {
struct Push;
}  // namespace capstan

namespace capstan::server {

class StepHyperParameters {
 public:
  // Compares the set that a checked push carries with the step's. A set is empty if the job file has the
  // hyper-parameters.
  Status Compare(const Push& push) const;
  // Takes the push's set if it is the step's first one. Requires that Compare() returned ok.
  void Take(const Push& push);
  // The session that brought the step's set; 0 if no push brought one.
  SessionId session() const { return session_; }
  // The step's set; empty if no push brought one.
  const std::vector<HyperParameters>& groups() const { return groups_; }
  // The hash of the step's set; 0 if no push brought one.
  std::uint64_t hash() const { return hash_; }
  // Forgets the set, for the next step.
  void Clear();

 private:
  std::vector<HyperParameters> groups_;
  Node from_;
  SessionId session_;
  std::uint64_t hash_ = 0;
};

}  // namespace capstan::server
