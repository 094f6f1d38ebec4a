// Mode allreduce: which workers form the group of a generation. The members of a group do not change. When a worker
// joins or leaves, or the group breaks, the coordinator begins another generation. There the shards keep what they
// have, and the workers go on from the last committed step if one of them has that version.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/stragglers.h"

namespace capstan::server {

void Coordinator::AskForGroup(std::string reason, bool goes_back, Outbox* out) {
  const std::string text = "the group of generation " + std::to_string(job_.journal.generation().value) +
                           " is given up at step " + std::to_string(job_.steps->step().value) + ": " + reason;
  if (job_.group->Ask(std::move(reason), goes_back)) out->Say(Severity::kWarning, text);
}

// A Commit in flight arrives first, so that all shards are at one version. Right after this coordinator's start,
// earlier members may not have come back yet.
void Coordinator::FormGroupAnew(Instant now, Outbox* out) {
  if (!job_.steps->AllPublished() || job_.steps->parameters().stop || job_.members.size() == 0) return;
  const bool all = job_.members.size() >= job_.options.config.cluster.workers;
  if ((!all && now - job_.clock.started() < job_.lease()) || !job_.group->MayEnd(now)) return;
  const bool back = job_.group->request()->goes_back;
  const Step lost = job_.steps->step();
  const std::string reason = job_.group->request()->reason;
  job_.clock.SetCause(reason);
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

void Coordinator::HearOfGroup(const Worker& worker, Outbox* out) {
  if (job_.state.now() != State::kRunning) return;
  switch (worker.group) {
    case GroupState::kNone: return;
    case GroupState::kOffered:
      if (!AllReduceGroup::IsOffered(job_.members)) return;
      ++job_.view_sequence;
      return SendViews(out);
    case GroupState::kFormed: return;
    case GroupState::kBroken:
      return AskForGroup("\"" + worker.name + "\": " + worker.group_text + AllReduceGroup::MissingText(job_.members),
                         false, out);
    case GroupState::kLost: return AskForGroup("\"" + worker.name + "\": " + worker.group_text, true, out);
  }
}

// Machine groups that have failed or changed are formed again.
void Coordinator::RenewLocalGroups(Instant now, Outbox* out) {
  if (!job_.machine_groups) return;
  LeaveOutLateMembers(now, out);
  if (!job_.machine_groups->Update(job_.members, now)) return;
  ++job_.view_sequence;
  SendViews(out);
}

// Members of a machine group wait for each other without limit, so the coordinator has to notice a member that hangs.
void Coordinator::LeaveOutLateMembers(Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning) return;
  const Instant limit = job_.records.SlowAfter(job_.options.slow_after);
  for (auto& [session, worker] : job_.members.workers()) {
    if (worker.late && HasDoneStep(worker, job_.work())) worker.late = false;
    if (worker.late || !IsSlow(worker, job_.work(), now, limit)) continue;
    if (job_.machine_groups->Of(worker, job_.members).members.size() > 1) {
      out->Say(Severity::kWarning, "\"" + worker.name + "\" has computed step " + std::to_string(worker.step.value) +
                                       " for " + WholeSeconds(now - worker.since) +
                                       "; the other workers of its machine add up without it until it has done a step");
    }
    worker.late = true;
  }
}

void Coordinator::HearOfLocalGroup(const Worker& worker, Instant now, Outbox* out) {
  if (!job_.machine_groups || !job_.machine_groups->Hear(worker, job_.members, now)) return;
  ++job_.view_sequence;
  SendViews(out);
}

}  // namespace capstan::server
