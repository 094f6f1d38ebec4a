#include "server/coordinator/allreduce_group.h"

#include <algorithm>
#include <utility>

#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

bool AllReduceGroup::Ask(std::string reason, bool goes_back) {
  const bool first = !request_;
  if (first || !request_->goes_back) request_ = Request{std::move(reason), goes_back};
  return first;
}

void AllReduceGroup::Begin(Instant now) {
  request_.reset();
  began_ = now;
}

bool AllReduceGroup::IsOffered(const Membership& members) {
  return std::all_of(members.workers().begin(), members.workers().end(), [](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.slots.empty() || worker.group == GroupState::kOffered || worker.group == GroupState::kFormed;
  });
}

bool AllReduceGroup::IsFormed(const Membership& members) {
  return std::all_of(members.workers().begin(), members.workers().end(), [](const auto& entry) {
    return entry.second.slots.empty() || entry.second.group == GroupState::kFormed;
  });
}

bool AllReduceGroup::NoneHasVersion(const Membership& members) {
  return std::all_of(members.workers().begin(), members.workers().end(), [](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.slots.empty() || worker.offer.starts_with(kOffersNoVersion);
  });
}

std::string AllReduceGroup::MissingText(const Membership& members) {
  std::string names;
  for (const auto& [session, worker] : members.workers()) {
    if (!worker.slots.empty() && worker.group == GroupState::kNone) AddName(&names, "\"" + worker.name + "\"");
  }
  return names.empty() ? names : " (not there yet: " + names + ")";
}

bool AllReduceGroup::Changes(const Membership& members, SlotIndex slot_count) {
  Membership after = members;
  after.Assign(slot_count);
  std::size_t assigned = 0;
  for (const auto& [session, worker] : members.workers()) {
    if (after.Find(session)->slots != worker.slots) return true;
    assigned += worker.slots.size();
  }
  return assigned != slot_count;
}

std::vector<GroupMember> AllReduceGroup::Of(const Worker& worker, const Membership& members) const {
  std::vector<GroupMember> group;
  if (worker.slots.empty() || request_) return group;
  const bool tell = worker.group == GroupState::kOffered && IsOffered(members);
  for (const auto& [session, member] : members.workers()) {
    if (member.slots.empty()) continue;
    group.push_back({session, member.name, tell ? member.group_text : std::string()});
  }
  return group;
}

}  // namespace capstan::server
