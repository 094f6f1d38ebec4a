#include "server/coordinator/machine_groups.h"

#include <algorithm>

#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"

namespace capstan::server {

std::map<std::string, std::vector<MachineGroups::Candidate>> MachineGroups::CandidatesOf(const Membership& members) {
  std::map<std::string, std::vector<Candidate>> machines;
  for (const auto& [joined, worker] : members.workers()) {
    if (worker.machine.empty() || worker.slots.empty() || worker.pace.late) continue;
    machines[worker.machine].push_back({worker.session, worker.slots});
  }
  std::erase_if(machines, [](const auto& machine) { return machine.second.size() < 2; });
  for (auto& [machine, candidates] : machines) {
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.slots < b.slots; });
  }
  return machines;
}

bool MachineGroups::Update(const Membership& members, Instant now) {
  bool changed = false;
  std::map<std::string, Group> groups;
  for (auto& [machine, candidates] : CandidatesOf(members)) {
    const auto before = groups_.find(machine);
    const bool same = before != groups_.end() && before->second.candidates == candidates;
    if (same && !(before->second.broken && now - before->second.begun >= before->second.lasts)) {
      groups.emplace(machine, std::move(before->second));
      continue;
    }
    const Instant lasts = same ? NextLasts(before->second) : kLasts;
    groups.emplace(machine, Group{++epoch_, std::move(candidates), now, lasts, std::nullopt});
    changed = true;
  }
  changed = changed || groups.size() != groups_.size();
  groups_ = std::move(groups);
  return changed;
}

// Returns `lasts` of the group that replaces the broken `group`.
Instant MachineGroups::NextLasts(const Group& group) {
  return *group.broken - group.begun >= kLongLasting ? kLasts : std::min(2 * group.lasts, kLastsMax);
}

bool MachineGroups::Offered(const Group& group, const Membership& members) {
  return std::all_of(group.candidates.begin(), group.candidates.end(), [&](const Candidate& candidate) {
    const Worker* worker = members.Find(candidate.session);
    return worker != nullptr && worker->group.epoch == group.epoch &&
           (worker->group.state == GroupState::kOffered || worker->group.state == GroupState::kFormed);
  });
}

bool MachineGroups::TakeReport(const Worker& worker, const Membership& members, Instant now) {
  const auto group = groups_.find(worker.machine);
  if (group == groups_.end() || group->second.epoch != worker.group.epoch) return false;
  if (worker.group.state == GroupState::kBroken && !group->second.broken) group->second.broken = now;
  return worker.group.state == GroupState::kOffered && Offered(group->second, members);
}

std::pair<const MachineGroups::Group*, std::size_t> MachineGroups::Find(const Worker& worker) const {
  const auto found = groups_.find(worker.machine);
  if (worker.slots.empty() || found == groups_.end()) return {nullptr, 0};
  const std::vector<Candidate>& candidates = found->second.candidates;
  const auto its = std::find_if(candidates.begin(), candidates.end(),
                                [&](const Candidate& candidate) { return candidate.session == worker.session; });
  if (its == candidates.end()) return {nullptr, 0};
  return {&found->second, static_cast<std::size_t>(its - candidates.begin())};
}

MachineGroups::View MachineGroups::Of(const Worker& worker, const Membership& members) const {
  const auto [group, rank] = Find(worker);
  if (group == nullptr) return {};
  const bool tell = worker.group.state == GroupState::kOffered && Offered(*group, members);
  View view{group->epoch, {}, static_cast<std::uint32_t>(rank)};
  for (const Candidate& candidate : group->candidates) {
    const Worker* member = members.Find(candidate.session);
    if (member == nullptr) return {};  // the member has just left
    view.members.push_back({member->name, tell ? member->group.text : std::string()});
  }
  return view;
}

std::vector<SlotIndex> MachineGroups::SlotsOf(const Worker& worker) const {
  std::vector<SlotIndex> slots;
  const Group* group = Find(worker).first;
  if (group == nullptr) return slots;
  for (const Candidate& candidate : group->candidates) {
    slots.insert(slots.end(), candidate.slots.begin(), candidate.slots.end());
  }
  return slots;
}

}  // namespace capstan::server
