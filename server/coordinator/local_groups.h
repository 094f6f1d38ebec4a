// LocalGroups: which workers share a machine, so that they may add up their gradients before one of them pushes.
//
// Kind:   a value; part of the Coordinator's core.
// Limits: a machine's group is made anew at most once per kLasts on account of its trouble, and more and more seldom,
//         up to kLastsMax, where none of them lives for kLongLife: its workers may not reach each other.
// Why:    a group is a hint: its members push by themselves while it is not there. So it belongs to no generation, and
//         its epoch alone says who is in it, with which slots.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/membership.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::server {

class LocalGroups {
 public:
  static constexpr Instant kLasts = std::chrono::seconds(1), kLastsMax = std::chrono::seconds(60),
                           kLongLife = std::chrono::seconds(20);

  // Epochs are above those of every coordinator before this one.
  explicit LocalGroups(Term term) : epoch_(term.value << 32) {}

  // Workers or slots may have changed. Whether some group is another one now.
  bool Update(const Membership& members, Instant now);
  // What the worker has said last of its group. Whether all of it have offered addresses now.
  bool Hear(const Worker& worker, const Membership& members, Instant now);

  struct Told {
    std::uint64_t epoch = 0;
    std::vector<GroupMember> members;  // in order of their slots; with addresses once all have offered theirs
  };
  // For that worker; no members: it pushes for itself.
  Told Of(const Worker& worker, const Membership& members) const;

 private:
  struct Seat {
    SessionId session;
    std::vector<SlotIndex> slots;
    bool operator==(const Seat&) const = default;
  };
  struct Group {
    std::uint64_t epoch = 0;
    std::vector<Seat> seats;
    Instant begun{};
    Instant lasts = kLasts;         // at least
    std::optional<Instant> broken;  // since when
  };
  static Instant NextLasts(const Group& group);
  static std::map<std::string, std::vector<Seat>> SeatsOf(const Membership& members);
  static bool Offered(const Group& group, const Membership& members);

  std::uint64_t epoch_;                  // the newest
  std::map<std::string, Group> groups_;  // by machine; of two workers or more
};

}  // namespace capstan::server
