#include "server/coordinator/worker_care.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/config/job_config.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/late_workers.h"

namespace capstan::server {

namespace {

// Logs each worker once when it has no slot because there are more workers than slots.
void NameIdleWorkers(Job* job, Outbox* out) {
  for (auto& [session, worker] : job->members.workers()) {
    const bool idle = worker.slots.empty() && job->members.size() > job->slot_count();
    if (idle && !worker.idle) {
      out->Log(Severity::kWarning, "\"" + worker.name + "\" has nothing to compute: " + WhyIdle(*job));
    }
    worker.idle = idle;
  }
}

// Excludes workers that take too long from their machine's group, because its members wait for each other without
// limit.
void LeaveOutLateMembers(Job* job, Instant now, Outbox* out) {
  if (job->state.now() != CoordinatorState::kRunning) return;
  const Instant limit = job->records.SlowAfter(job->options.slow_after);
  for (auto& [session, worker] : job->members.workers()) {
    if (worker.late && HasDoneStep(worker, job->work())) worker.late = false;
    if (worker.late || !IsSlow(worker, job->work(), now, limit)) continue;
    if (job->machine_groups->Of(worker, job->members).members.size() > 1) {
      out->Log(Severity::kWarning, "\"" + worker.name + "\" has computed step " + std::to_string(worker.step.value) +
                                       " for " + WholeSeconds(now - worker.since) +
                                       "; the other workers of its machine add up without it until it has done a step");
    }
    worker.late = true;
  }
}

// Whether the step under way waits for a shard, or for first weights.
bool WaitsForServers(const Job& job, Instant now) {
  if (job.journal.AwaitsInitialWeights()) return true;
  return std::any_of(job.shards.begin(), job.shards.end(),
                     [&](const ShardEntry& shard) { return shard.gone || shard.IsSilent(now); });
}

std::vector<LateWorkers::Late> FindLate(Job* job, Instant patience, Instant now) {
  if (job->group) return job->late.FindAway(patience, &job->members, now);
  if (now - job->records.last_commit() < patience) return {};
  return job->late.Find({job->work(), job->records.last_commit(), patience, job->steps->MissingSlots()}, &job->members,
                        now);
}

}  // namespace

void DealSlots(Job* job, Outbox* out) {
  const Distribution distribution = job->machine_groups ? Distribution::kByMachine : Distribution::kKeepSlots;
  job->metrics->slots_moved.Add(job->members.Assign(job->slot_count(), distribution));
  for (auto& [session, worker] : job->members.workers()) {
    if (!std::exchange(worker.dealt, false)) continue;
    worker.slots_since = job->clock.last_tick();
    worker.slots_from = job->steps->step();
  }
  NameIdleWorkers(job, out);
  if (job->machine_groups) (void)job->machine_groups->Update(job->members, job->clock.last_tick());
  job->metrics->slots_unassigned.Set(job->members.size() == 0 ? static_cast<double>(job->slot_count()) : 0.0);
  ++job->view_sequence;
}

void SendNewSlots(Job* job, Outbox* out) {
  for (auto& [session, worker] : job->members.workers()) {
    if (worker.has_new_slots || job->machine_groups) SendView(*job, &worker, out);
  }
}

bool LeaveOutLateWorkers(Job* job, Instant now, Outbox* out) {
  if (job->state.now() != CoordinatorState::kRunning || job->members.RanksInUse()) return false;
  if (WaitsForServers(*job, now)) {
    job->late.NoteTrouble(now);
    return false;
  }
  const std::string back = job->late.TakeBack(job->work(), &job->members, now);
  if (!back.empty()) out->Log(Severity::kInfo, back + " may have slots again");
  const Instant patience = job->records.SlowAfter(job->options.slow_after);
  const std::vector<LateWorkers::Late> late = FindLate(job, patience, now);
  if (late.empty()) return !back.empty();
  job->late.NoteLate(patience, now);
  job->records.SkipDuration();
  const bool all = std::none_of(job->members.workers().begin(), job->members.workers().end(), [&](const auto& entry) {
    return !entry.second.left_out && std::none_of(late.begin(), late.end(), [&](const LateWorkers::Late& one) {
      return one.worker == &entry.second;
    });
  });
  for (auto& [session, worker] : job->members.workers()) worker.left_out = worker.left_out && !all;
  for (const LateWorkers::Late& one : late) {
    one.worker->left_out = true;
    one.worker->delivered = false;
    one.worker->breaks = 0;
    job->metrics->workers_left_out.Add(1);
    out->Log(Severity::kWarning, "\"" + one.worker->name + "\" is left out, because others have waited for it: " +
                                     one.why + "; the others compute its slots");
  }
  return true;
}

void NoteDelivered(Job* job, Step begun) {
  job->late.NoteStep();
  for (auto& [session, worker] : job->members.workers()) {
    worker.breaks = 0;
    worker.delivered = worker.delivered || (!worker.slots.empty() && worker.slots_from < begun);
  }
}

void RenewMachineGroups(Job* job, Instant now, Outbox* out) {
  if (!job->machine_groups) return;
  LeaveOutLateMembers(job, now, out);
  if (!job->machine_groups->Update(job->members, now)) return;
  SendChangedViews(job, out);
}

void NoteMachineGroup(Job* job, const Worker& worker, Instant now, Outbox* out) {
  if (!job->machine_groups || !job->machine_groups->TakeReport(worker, job->members, now)) return;
  SendChangedViews(job, out);
}

void PassBarrierWhenComplete(Job* job, Outbox* out) {
  if (!job->barrier.AnyWaiting(job->members) || !MissingInBarrier(*job).empty()) return;
  job->barrier.Pass(job->members);
  SendChangedViews(job, out);
}

}  // namespace capstan::server
