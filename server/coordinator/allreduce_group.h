// AllReduceGroup: the workers of a generation in mode allreduce, which reduce gradients among themselves.
//
// Kind:   a value; part of a Job in mode allreduce.
// Limits: a request for another group waits until the present group is kLasts old, because what broke one group may
//         break the next at once.
// Why:    the members of a group do not change. If the group breaks, or a change of workers moves slots, the
//         coordinator begins another generation. If a worker still has the newest version, the job goes on from that
//         version; otherwise it goes back to the newest snapshot.
#pragma once

#include <chrono>
#include <cstdint>
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

  // Notes a request for another group. It replaces an earlier request, unless the earlier one has goes_back set.
  // Returns whether there was no earlier one.
  bool Ask(std::string reason, bool goes_back);
  const std::optional<Request>& request() const { return request_; }
  bool MayEnd(Instant now) const { return now - began_ >= kLasts; }
  void Begin(Instant now);

  // Whether every worker that has slots has offered its address.
  static bool IsOffered(const Membership& members);
  static bool IsFormed(const Membership& members);
  // Names the workers with slots that have not yet reported a state of the group; empty if all have.
  static std::string MissingText(const Membership& members);
  // Whether some worker would get other slots if the slots were dealt again now, or some slot has no worker.
  static bool Changes(const Membership& members, SlotIndex slot_count);
  struct View {
    std::vector<GroupMember> members;
    std::uint32_t rank = 0;  // the worker's position in `members`
  };
  // Returns the group of `worker`: its members in the order in which they joined; none if `worker` has no slots, or
  // while another group is requested. Addresses are set only while `worker` has offered its own, and not formed the
  // group yet, and all members have offered theirs.
  View Of(const Worker& worker, const Membership& members) const;

 private:
  std::optional<Request> request_;
  Instant began_{};
};

}  // namespace capstan::server
