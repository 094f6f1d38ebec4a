#include "server/coordinator/worker_care.h"

#include "common/config/job_config.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/stragglers.h"

namespace capstan::server {

namespace {

// Logs each worker once when it has no slot because there are more workers than slots.
void NameIdleWorkers(Job* job, Outbox* out) {
  for (auto& [joined, worker] : job->members.workers()) {
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
  for (auto& [joined, worker] : job->members.workers()) {
    if (worker.pace.late && HasDoneStep(worker, job->work())) worker.pace.late = false;
    if (worker.pace.late || !IsSlow(worker, job->work(), now, limit)) continue;
    if (job->machine_groups->Of(worker, job->members).members.size() > 1) {
      out->Log(Severity::kWarning, "\"" + worker.name + "\" has computed step " + std::to_string(worker.step.value) +
                                       " for " + WholeSeconds(now - worker.pace.since) +
                                       "; the other workers of its machine add up without it until it has done a step");
    }
    worker.pace.late = true;
  }
}

}  // namespace

void DealSlots(Job* job, Outbox* out) {
  const Distribution distribution = job->machine_groups ? Distribution::kByMachine : Distribution::kKeepSlots;
  job->metrics->slots_moved.Add(job->members.Assign(job->slot_count(), distribution));
  NameIdleWorkers(job, out);
  if (job->machine_groups) (void)job->machine_groups->Update(job->members, job->clock.last_tick());
  job->metrics->slots_unassigned.Set(job->members.size() == 0 ? static_cast<double>(job->slot_count()) : 0.0);
  ++job->told.view_sequence;
}

void SendNewSlots(Job* job, Outbox* out) {
  for (auto& [joined, worker] : job->members.workers()) {
    if (worker.view_due || job->machine_groups) SendView(job, &worker, out);
  }
}

void SendDueViews(Job* job, Outbox* out) {
  for (auto& [joined, worker] : job->members.workers()) {
    if (worker.view_due) SendView(job, &worker, out);
  }
}

void HelpSlowWorkers(Job* job, Instant now, Outbox* out) {
  if (job->state.now() != CoordinatorState::kRunning || !job->steps->AllowsBackups() || job->ranks.in_use()) return;
  const Instant limit = job->records.SlowAfter(job->options.slow_after);
  for (const auto& [slow, helper] : BackUpSlowWorkers(job->work(), now, limit, &job->members)) {
    job->metrics->slots_backed_up.Add(slow->slots.size());
    out->Log(Severity::kWarning, "\"" + slow->name + "\" has computed step " + std::to_string(slow->step.value) +
                                     " for " + WholeSeconds(now - slow->pace.since) + "; \"" + helper->name +
                                     "\" computes its slots as well");
    ++job->told.view_sequence;
    SendView(job, helper, out);
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
