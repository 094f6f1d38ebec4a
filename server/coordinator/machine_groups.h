// MachineGroups: which workers share a machine, so that they can add up their gradients before one of them pushes.
//
// Kind:   a value; part of the Coordinator's core.
// Limits: a broken group is replaced at the earliest kLasts after it began. Each time a group breaks before it is
//         kLongLasting old, this interval doubles up to kLastsMax, because its workers may not reach each other.
// Why:    workers without a group push on their own, so groups are optional and belong to no generation. A group's
//         epoch identifies its members and their slots.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/membership.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::server {

class MachineGroups {
 public:
  static constexpr Instant kLasts = std::chrono::seconds(1), kLastsMax = std::chrono::seconds(60),
                           kLongLasting = std::chrono::seconds(20);

  // Epochs are higher than those of all earlier coordinators.
  explicit MachineGroups(Term term) : epoch_(term.value << 32) {}

  // Adapts the groups to the present workers and slots, and replaces broken ones. Returns whether a group has changed.
  bool Update(const Membership& members, Instant now);
  // Takes the group's state from the worker's last Heartbeat. Returns whether the worker offers its address, and all
  // other members have offered theirs.
  bool TakeReport(const Worker& worker, const Membership& members, Instant now);

  struct View {
    std::uint64_t epoch = 0;
    std::vector<GroupMember> members;  // in order of their slots; with addresses only for a worker in state kOffered,
                                       // once all members have offered theirs
    std::uint32_t rank = 0;            // the worker's position in `members`
  };
  // Returns the worker's group. Without members, the worker has no group and pushes on its own.
  View Of(const Worker& worker, const Membership& members) const;
  // Returns the slots of all members of the worker's group; none if it has no group.
  std::vector<SlotIndex> SlotsOf(const Worker& worker) const;

 private:
  struct Candidate {
    SessionId session;
    std::vector<SlotIndex> slots;
    bool operator==(const Candidate&) const = default;
  };
  struct Group {
    std::uint64_t epoch = 0;
    std::vector<Candidate> candidates;
    Instant begun{};
    Instant lasts = kLasts;         // a broken group is kept at least this long after `begun`
    std::optional<Instant> broken;  // when a member first reported that the group is broken
  };
  static Instant NextLasts(const Group& group);
  // Returns the worker's group, and its position among the members; null if it has no group.
  std::pair<const Group*, std::size_t> Find(const Worker& worker) const;
  static std::map<std::string, std::vector<Candidate>> CandidatesOf(const Membership& members);
  static bool Offered(const Group& group, const Membership& members);

  std::uint64_t epoch_;                  // the newest epoch
  std::map<std::string, Group> groups_;  // by machine; only groups of two or more workers
};

}  // namespace capstan::server
