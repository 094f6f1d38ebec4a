// RingBoard: what workers of a simulated job do among themselves, without the servers: they connect, hand a version
// around and add up gradients.
//
// Kind:   owned by the cluster; shared by its workers.
// Why:    as with real connections, those who name the same addresses meet, the n-th sum of one member meets the
//         n-th of the others, and a member that is gone is noticed, or not.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "tests/sim/cluster.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::sim {

// Weights, then the optimizer's states, each flat as the catalog.
using Arrays = std::vector<std::vector<float>>;

// What a member adds to a sum.
struct RingPart {
  Step step;
  std::vector<SlotIndex> slots;
  std::uint64_t samples = 0;
  std::vector<float> sum;  // of mean gradient times samples
};

struct RingGroup {
  Generation generation;
  std::size_t size = 0;
  std::map<int, std::uint64_t> members;  // by rank: who is connected
  std::set<std::uint64_t> gone;          // of these
  std::optional<Arrays> version;         // that somebody hands around
  std::vector<std::map<int, RingPart>> calls;

  bool connected() const { return members.size() == size; }
  bool broken() const { return !gone.empty(); }
  bool IsWhole(std::size_t call) const { return call < calls.size() && calls[call].size() == size; }
};

class RingBoard {
 public:
  // Whoever names the same addresses is in one group.
  RingGroup* Connect(const std::vector<GroupMember>& members, Generation generation, int rank);
  // A process that ends, or its end of a group.
  void Gone(std::uint64_t node);
  const std::map<std::string, RingGroup>& groups() const { return groups_; }

 private:
  std::map<std::string, RingGroup> groups_;  // by addresses; they stay
};

// Of these slots, in their order; flat as the catalog. `weights`: that the gradients are of.
RingPart MakePart(const ClusterOptions& options, const Catalog& catalog, const float* weights, Step step,
                  std::vector<SlotIndex> slots);
// In the order of ranks.
RingPart Sum(const std::map<int, RingPart>& parts);

}  // namespace capstan::sim
