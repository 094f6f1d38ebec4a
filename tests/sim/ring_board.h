// RingBoard: how workers of a simulated job interact without the servers: they connect, send a version to each other
// and add gradients.
//
// Kind:   owned by the cluster; shared by its workers.
// Why:    as with real connections, members that name the same addresses meet, the n-th step of one member matches the
//         n-th of the others, and a lost member is noticed, or not.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "tests/sim/cluster.h"

namespace capstan::sim {

// Weights, then the optimizer's states, each flat in catalog order.
using Arrays = std::vector<std::vector<float>>;

// A member's contribution to a step.
struct RingPart {
  Step step;
  std::vector<SlotIndex> slots;
  std::uint64_t samples = 0;
  std::vector<float> sum;         // mean gradients times samples
  std::vector<bool> handed_over;  // by bucket, and then the number of samples: whether they are there
};

struct RingGroup {
  using Parts = std::map<int, RingPart>;  // by rank

  Generation generation;
  std::size_t size = 0;
  std::map<int, std::uint64_t> members;  // connected processes, by rank
  std::set<std::uint64_t> gone;          // members that are gone
  std::optional<Arrays> version;         // the version that a member sends to the others
  std::vector<Parts> steps;

  bool connected() const { return members.size() == size; }
  bool broken() const { return !gone.empty(); }
  // Whether all members have handed over the bucket, or the number of samples.
  bool Has(std::size_t step, std::size_t bucket) const;
  bool IsWhole(std::size_t step) const;
};

class RingBoard {
 public:
  // Members that name the same addresses are in one group.
  RingGroup* Connect(const std::vector<std::string>& addresses, Generation generation, int rank);
  // Call it when a process ends, or leaves a group.
  void Gone(std::uint64_t node);
  const std::map<std::string, RingGroup>& groups() const { return groups_; }

 private:
  std::map<std::string, RingGroup> groups_;  // by addresses; never removed
};

// The sum over these slots, in their order; flat in catalog order. `weights`: for which the gradients are computed.
RingPart MakePart(const ClusterOptions& options, const Catalog& catalog, const float* weights, Step step,
                  std::vector<SlotIndex> slots);
// In the order of ranks.
RingPart Sum(const std::map<int, RingPart>& parts);

}  // namespace capstan::sim
