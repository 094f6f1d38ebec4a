// AllReduceGroup: the workers of a generation in mode allreduce, which reduce gradients among themselves.
//
// Kind:   a value; part of a Job in mode allreduce.
// Limits: a group lasts at least kLasts, because what broke one group may break the next at once.
// Why:    the members of a group do not change. When a worker joins or leaves, or the group breaks, the coordinator
//         begins another generation. There the shards keep what they have, and the workers go on from the last
//         committed step if one of them has that version.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "server/coordinator/membership.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::server {

class AllReduceGroup {
 public:
  static constexpr Instant kLasts = std::chrono::seconds(1);

  struct Request {
    std::string reason;
    bool goes_back = false;  // no member has the job's current version
  };

  // Asks for another group, as soon as all shards have the last Commit. Returns whether it is the first request.
  bool Ask(std::string reason, bool goes_back);
  const std::optional<Request>& request() const { return request_; }
  bool MayEnd(Instant now) const { return now - began_ >= kLasts; }
  void Begin(Instant now);

  // Whether all members have offered their addresses.
  static bool IsOffered(const Membership& members);
  static bool IsFormed(const Membership& members);
  // Names the workers that have not yet reported a state of the group; empty if all have.
  static std::string MissingText(const Membership& members);
  // Whether some worker would get other slots if the slots were dealt again now.
  static bool Changes(const Membership& members, SlotIndex slot_count);
  // Lists the members of the worker's group in order of sessions; empty while another group is asked for. The list has
  // addresses if the worker has offered its own and still has to form the group, once all members have offered theirs.
  std::vector<GroupMember> Of(const Worker& worker, const Membership& members) const;

 private:
  std::optional<Request> request_;
  Instant began_{};
};

}  // namespace capstan::server
