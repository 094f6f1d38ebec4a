// Mode allreduce: which workers form the group of a generation. The members of a group do not change. When a worker
// joins or leaves, or the group breaks, the coordinator begins another generation. There the shards keep what they
// have, and the workers go on from the last committed step if one of them has that version.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr Instant kGroupLasts = std::chrono::seconds(1);  // at least; what broke one group may break the next

}  // namespace

// Whether dealing the slots now would give another distribution.
bool Coordinator::GroupChanges() const {
  Membership after = members_;
  after.Assign(job_.slot_count);
  std::size_t held = 0;
  for (const auto& [session, worker] : members_.workers()) {
    if (after.Find(session)->slots != worker.slots) return true;
    held += worker.slots.size();
  }
  return held != job_.slot_count;
}

void Coordinator::AskForGroup(std::string reason, Recovery recovery, Outbox* out) {
  if (regroup_ && regroup_->recovery == Recovery::kGoBack) return;
  if (!regroup_) {
    out->Say(Severity::kWarning, "the group of generation " + std::to_string(job_.journal.generation().value) +
                                     " is given up at step " + std::to_string(job_.steps->step().value) + ": " +
                                     reason);
  }
  regroup_ = GroupWish{std::move(reason), recovery};
}

// A Commit in flight arrives first, so that all shards are at one version. Right after this coordinator's start,
// earlier members may not have come back yet.
void Coordinator::FormGroupAnew(Instant now, Outbox* out) {
  if (!job_.steps->AllPublished() || job_.steps->parameters().stop || members_.size() == 0) return;
  const bool all = members_.size() >= job_.options.config.cluster.workers;
  if ((!all && now - started_ < lease()) || now - last_group_ < kGroupLasts) return;
  const bool back = regroup_->recovery == Recovery::kGoBack;
  const Step lost = job_.steps->step();
  const std::string reason = std::move(regroup_->reason);
  attempts_.cause = reason;
  StartRecovery(back ? Recovery::kGoBack : Recovery::kRegroup, now, out);
  const std::string next = "generation " + std::to_string(job_.journal.generation().value);
  if (!back) {
    out->Say(Severity::kInfo, next + ": another group; it goes on from step " + std::to_string(lost.value) +
                                  ", the last that all had finished");
  } else {
    out->Say(Severity::kWarning, next + ": step " + std::to_string(lost.value) + " is lost (" + reason +
                                     "); the job goes back to version " +
                                     std::to_string(job_.journal.recover().snapshot.version.value));
  }
}

void Coordinator::BeginGroup() {
  regroup_.reset();
  for (auto& [session, worker] : members_.workers()) {
    worker.group = GroupState::kNone;
    worker.group_text.clear();
  }
}

void Coordinator::HearOfGroup(const Worker& worker, Outbox* out) {
  if (job_.state.now() != State::kRunning) return;
  switch (worker.group) {
    case GroupState::kNone: return;
    case GroupState::kOffered:
      if (!GroupOffered()) return;
      ++view_sequence_;
      return SendViews(out);
    case GroupState::kFormed: return;
    case GroupState::kBroken:
      return AskForGroup("\"" + worker.name + "\": " + worker.group_text + NotInGroup(), Recovery::kRegroup, out);
    case GroupState::kLost: return AskForGroup("\"" + worker.name + "\": " + worker.group_text, Recovery::kGoBack, out);
  }
}

// The workers that have not yet reported a state of this generation's group, as text; empty: all have.
std::string Coordinator::NotInGroup() const {
  std::string names;
  for (const auto& [session, worker] : members_.workers()) {
    if (!worker.slots.empty() && worker.group == GroupState::kNone) AddName(&names, "\"" + worker.name + "\"");
  }
  return names.empty() ? names : " (not there yet: " + names + ")";
}

bool Coordinator::GroupOffered() const {
  return std::all_of(members_.workers().begin(), members_.workers().end(), [](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.slots.empty() || worker.group == GroupState::kOffered || worker.group == GroupState::kFormed;
  });
}

// Ranks follow the order of sessions. Only workers that have not formed the group yet get addresses.
std::vector<GroupMember> Coordinator::GroupOf(const Worker& worker) const {
  std::vector<GroupMember> group;
  if (!WorkersUpdate(job_.options.config.mode()) || job_.state.now() != State::kRunning || worker.slots.empty() ||
      regroup_) {
    return group;
  }
  const bool tell = worker.group == GroupState::kOffered && GroupOffered();
  for (const auto& [session, member] : members_.workers()) {
    if (member.slots.empty()) continue;
    group.push_back({session, member.name, tell ? member.group_text : std::string()});
  }
  return group;
}

// Machine groups that have failed or changed are formed again.
void Coordinator::RenewLocalGroups(Instant now, Outbox* out) {
  if (!local_groups_) return;
  LeaveOutLateMembers(now, out);
  if (!local_groups_->Update(members_, now)) return;
  ++view_sequence_;
  SendViews(out);
}

// Members of a machine group wait for each other without limit, so the coordinator has to notice a member that hangs.
void Coordinator::LeaveOutLateMembers(Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning) return;
  const Instant limit = SlowAfter();
  for (auto& [session, worker] : members_.workers()) {
    if (worker.late && HasDoneStep(worker)) worker.late = false;
    if (worker.late || !IsSlow(worker, now, limit)) continue;
    if (local_groups_->Of(worker, members_).members.size() > 1) {
      out->Say(Severity::kWarning, "\"" + worker.name + "\" has computed step " + std::to_string(worker.step.value) +
                                       " for " + WholeSeconds(now - worker.since) +
                                       "; the other workers of its machine add up without it until it has done a step");
    }
    worker.late = true;
  }
}

void Coordinator::HearOfLocalGroup(const Worker& worker, Instant now, Outbox* out) {
  if (!local_groups_ || !local_groups_->Hear(worker, members_, now)) return;
  ++view_sequence_;
  SendViews(out);
}

}  // namespace capstan::server
