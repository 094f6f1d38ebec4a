// RingBoard: what the workers of a simulated allreduce job do among themselves: they connect, send a version to each
// other and add gradients.
//
// Kind:   owned by the cluster; shared by its workers.
// Why:    as with real connections, members that name the same addresses meet, the n-th step of one member is added to
//         the n-th of the others, and members notice a lost member late or not at all.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "tests/sim/cluster.h"

namespace capstan::sim {

// The weights and then the optimizer's states, each flat in catalog order.
using Arrays = std::vector<std::vector<float>>;

// What a member contributes to a step.
struct RingPart {
  Step step;
  std::vector<SlotIndex> slots;
  std::uint64_t samples = 0;
  std::vector<float> sum;         // mean gradients times samples
  std::vector<bool> handed_over;  // by bucket; the last entry is for the number of samples
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
  // Whether all members have handed over this bucket of the step. The index after the last bucket stands for their
  // numbers of samples.
  bool Has(std::size_t step, std::size_t bucket) const;
  bool IsWhole(std::size_t step) const;
};

class RingBoard {
 public:
  // Returns the group of this generation and these addresses, and adds the member of this rank.
  RingGroup* Connect(const std::vector<std::string>& addresses, Generation generation, int rank);
  // Call it when a process ends, or leaves a group.
  void Gone(std::uint64_t node);
  const std::map<std::string, RingGroup>& groups() const { return groups_; }

 private:
  std::map<std::string, RingGroup> groups_;  // by addresses; never removed
};

// Makes a member's part: the sum of the gradients of these slots, in this order, computed with `weights`.
RingPart MakePart(const ClusterOptions& options, const Catalog& catalog, const float* weights, Step step,
                  std::vector<SlotIndex> slots);
// Adds the members' parts in the order of ranks.
RingPart Sum(const std::map<int, RingPart>& parts);

}  // namespace capstan::sim
