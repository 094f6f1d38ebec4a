#include "worker/session/worker_group.h"

#include <algorithm>

namespace capstan::session {

bool WorkerGroup::AllOffered(const std::vector<GroupMember>& members) {
  return std::none_of(members.begin(), members.end(), [](const GroupMember& member) { return member.address.empty(); });
}

int WorkerGroup::RankOf(const std::vector<GroupMember>& members, SessionId session) {
  const auto me = std::find_if(members.begin(), members.end(),
                               [&](const GroupMember& member) { return member.session == session; });
  return static_cast<int>(me - members.begin());
}

WorkerGroup::News AllReduceGroup::Follow(const View& view, SessionId session, Generation generation) {
  const std::vector<GroupMember>& members = view.group;
  if (view.generation != generation || members.empty()) return {};
  if (members_.empty()) {
    members_ = members;
    for (GroupMember& member : members_) member.address.clear();
    rank_ = RankOf(members, session);  // a later session id does not change the rank
  }
  if (known_ || state() != GroupState::kOffered) return {};
  const int rank = RankOf(members, session);
  if (rank == static_cast<int>(members.size()) || !AllOffered(members)) return {};
  known_ = true;
  return {GroupKnown{generation, members, rank}};
}

WorkerGroup::News MachineGroup::Follow(const View& view, SessionId session, Generation) {
  const int rank = RankOf(view.group, session);
  MachineGrouping group{view.group_epoch, view.group, rank};
  if (rank == static_cast<int>(view.group.size())) group = {view.group_epoch, {}, 0};
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
