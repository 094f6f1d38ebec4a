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
    return worker.slots.empty() || worker.group.state == GroupState::kOffered ||
           worker.group.state == GroupState::kFormed;
  });
}

bool AllReduceGroup::IsFormed(const Membership& members) {
  return std::all_of(members.workers().begin(), members.workers().end(), [](const auto& entry) {
    return entry.second.slots.empty() || entry.second.group.state == GroupState::kFormed;
  });
}

std::string AllReduceGroup::MissingText(const Membership& members) {
  std::string names;
  for (const auto& [joined, worker] : members.workers()) {
    if (!worker.slots.empty() && worker.group.state == GroupState::kNone) AddName(&names, "\"" + worker.name + "\"");
  }
  return names.empty() ? names : " (not there yet: " + names + ")";
}

bool AllReduceGroup::Changes(const Membership& members, SlotIndex slot_count) {
  Membership after = members;
  after.Assign(slot_count);
  std::size_t assigned = 0;
  for (const auto& [joined, worker] : members.workers()) {
    if (after.workers().at(joined).slots != worker.slots) return true;
    assigned += worker.slots.size();
  }
  return assigned != slot_count;
}

AllReduceGroup::View AllReduceGroup::Of(const Worker& worker, const Membership& members) const {
  View view;
  if (worker.slots.empty() || request_) return view;
  const bool tell = worker.group.state == GroupState::kOffered && IsOffered(members);
  for (const auto& [joined, member] : members.workers()) {
    if (member.slots.empty()) continue;
    if (member.session == worker.session) view.rank = static_cast<std::uint32_t>(view.members.size());
    view.members.push_back({member.name, tell ? member.group.text : std::string()});
  }
  return view;
}

}  // namespace capstan::server
