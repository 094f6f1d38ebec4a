#include "worker/session/worker_group.h"

#include <algorithm>

namespace capstan::session {

bool WorkerGroup::AllOffered(const std::vector<GroupMember>& members) {
  return std::none_of(members.begin(), members.end(), [](const GroupMember& member) { return member.address.empty(); });
}

WorkerGroup::News AllReduceGroup::Follow(const View& view, Generation generation) {
  const std::vector<GroupMember>& members = view.group;
  if (view.generation != generation || members.empty()) return {};
  if (members_.empty()) {
    members_ = members;
    for (GroupMember& member : members_) member.address.clear();
    rank_ = static_cast<int>(view.group_rank);
  }
  if (known_ || state() != GroupState::kOffered || !AllOffered(members)) return {};
  known_ = true;
  return {GroupKnown{generation, members, static_cast<int>(view.group_rank)}};
}

WorkerGroup::News MachineGroup::Follow(const View& view, Generation) {
  const int rank = view.group.empty() ? 0 : static_cast<int>(view.group_rank);  // checked where there are members
  MachineGrouping group{view.group_epoch, view.group, rank};
  if (group.epoch != epoch_) {
    epoch_ = group.epoch;
    known_ = false;
    Report(GroupState::kNone, {});
    return {std::move(group), true};
  }
  if (known_ || state() != GroupState::kOffered || group.members.empty()) return {};
  known_ = AllOffered(group.members);
  if (!known_) return {};
  return {std::move(group)};
}

}  // namespace capstan::session
