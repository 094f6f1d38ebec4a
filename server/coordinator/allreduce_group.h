// AllReduceGroup: the workers of a generation in mode allreduce, which reduce gradients among themselves.
//
// Kind:   a value; part of a Job in mode allreduce.
// Limits: a group lasts kLasts at least: what broke one may break the next.
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
  // The workers that have not yet reported a state of the group, as text; empty: all have.
  static std::string MissingText(const Membership& members);
  // Whether dealing the slots now would give another distribution.
  static bool Changes(const Membership& members, SlotIndex slot_count);
  // The group as this worker sees it, in order of sessions. A worker that has not formed the group gets addresses, once
  // all have offered theirs.
  std::vector<GroupMember> Of(const Worker& worker, const Membership& members) const;

 private:
  std::optional<Request> request_;
  Instant began_{};
};

}  // namespace capstan::server
