#include "server/coordinator/job_view.h"

#include <algorithm>
#include <utility>

#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/shard_address.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/tell_shards.h"

namespace capstan::server {

namespace {

// Whether this worker, or a reader (null), may end although the job still writes its last snapshot and final weights. A
// reader may, because the last version exists. Workers stay, because a lost shard may mean that steps are done again.
bool IsOverFor(const Job& job, const Worker* worker) {
  return worker == nullptr || job.journal.concluded() || job.ending.shutting_down;
}

}  // namespace

std::string WhyIdle(const Job& job) {
  return "other workers have the job's " + Count(job.slot_count(), "slot") +
         ", and it stands by for one that is lost; a job with more slots (job.slots) would have work for it, and other "
         "bits";
}

std::size_t WantedWorkers(const Job& job) {
  const ClusterSection& cluster = job.options.config.cluster;
  return job.clock.last_tick() - job.clock.started() < job.lease() ? cluster.workers : cluster.min_workers;
}

// With ranks the barrier waits for every rank.
std::string MissingInBarrier(const Job& job) {
  std::string who = job.barrier.Missing(job.members);
  if (job.ranks.in_use()) {
    if (std::string ranks = job.ranks.Missing(job.slot_count(), job.members, job.clock.last_tick()); !ranks.empty())
      AddName(&who, ranks);
    return who;
  }
  const std::size_t wanted = WantedWorkers(job);
  if (job.members.size() < wanted) {
    AddName(&who, std::to_string(wanted - job.members.size()) + " of " + Count(wanted, "worker") + " (not joined)");
  }
  return who;
}

bool IsFounder(const Job& job, SessionId session) {
  const Uploaders& uploaders = job.uploaders;
  if (job.journal.AwaitsInitialWeights()) return uploaders.initial && uploaders.initial->session == session;
  // The shards have version 0, and a worker that is asked for it would take that for the first weights.
  return uploaders.keeper && uploaders.keeper->Is(session) && job.steps->step().value != 0;
}

View MakeView(const Job& job, const Worker* worker) {
  View view;
  view.job = job.journal.job();
  view.term = job.journal.term();
  view.generation = job.journal.generation();
  view.sequence = job.told.view_sequence;
  view.slot_count = job.slot_count();
  view.step = job.steps->step();
  view.readable = job.steps->readable();
  switch (job.state.now()) {
    case CoordinatorState::kRunning: view.phase = JobPhase::kRunning; break;
    case CoordinatorState::kFinished:
      view.phase = IsOverFor(job, worker) ? JobPhase::kDone : JobPhase::kGathering;
      break;
    case CoordinatorState::kFailed: view.phase = JobPhase::kFailed; break;
    default: view.phase = JobPhase::kGathering;
  }
  view.message = job.state.failure().message();
  view.barrier = job.barrier.passed();
  if (worker != nullptr && job.state.failure().ok() && job.barrier.IsWaiting(*worker))
    view.message = MissingInBarrier(job);
  // A view names the shards only if they are those of the generation: a finished job may be read with another number of
  // servers than it ran with.
  const bool served = job.journal.running() && job.journal.running()->incarnations.size() == job.shards.size();
  // A worker in this generation already has its shards' addresses and connections.
  const bool knows = worker != nullptr && worker->generation == job.journal.generation();
  if (served && !knows &&
      (job.state.now() == CoordinatorState::kRunning || job.state.now() == CoordinatorState::kFinished)) {
    for (ShardAddress& address : job.shards.Addresses()) {
      address.incarnation = job.journal.running()->incarnations[address.shard];
      view.shards.push_back(std::move(address));
    }
  }
  if (worker != nullptr) {
    view.session = worker->session;
    view.notice = worker->idle ? "this worker has nothing to compute: " + WhyIdle(job) : job.equal_slots.text();
    view.founder = job.state.now() == CoordinatorState::kRunning && IsFounder(job, worker->session);
    view.slots = worker->slots;
    view.slots.insert(view.slots.end(), worker->backup.begin(), worker->backup.end());
    std::sort(view.slots.begin(), view.slots.end());
    view.slots.erase(std::unique(view.slots.begin(), view.slots.end()), view.slots.end());  // a slot may be in both
    if (job.group && job.state.now() == CoordinatorState::kRunning) {
      AllReduceGroup::View group = job.group->Of(*worker, job.members);
      view.group = std::move(group.members);
      view.group_rank = group.rank;
    }
    if (job.machine_groups && job.state.now() == CoordinatorState::kRunning) {
      MachineGroups::View group = job.machine_groups->Of(*worker, job.members);
      view.group = std::move(group.members);
      view.group_rank = group.rank;
      view.group_epoch = group.epoch;
    }
  }
  return view;
}

void SendView(Job* job, Worker* worker, Outbox* out) {
  worker->view_due = job->state.now() == CoordinatorState::kRunning && !TellShards(job, TellWhen::kBeforeView, out);
  if (!worker->view_due) out->Send(worker->peer, MakeView(*job, worker));
}

void SendViews(Job* job, Outbox* out) {
  for (auto& [joined, worker] : job->members.workers()) SendView(job, &worker, out);
}

void SendChangedViews(Job* job, Outbox* out) {
  ++job->told.view_sequence;
  SendViews(job, out);
}

}  // namespace capstan::server
