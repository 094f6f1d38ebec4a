#include "server/coordinator/tell_shards.h"

#include <algorithm>
#include <utility>

#include "common/config/job_config.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_view.h"

namespace capstan::server {

namespace {

void Add(const std::vector<SlotIndex>& more, std::vector<SlotIndex>* slots) {
  slots->insert(slots->end(), more.begin(), more.end());
}

// Lists the slots that the worker's pushes may cover. In a machine's group each member may push sums of all members.
std::vector<SlotIndex> SlotsOf(const Job& job, const Worker& worker) {
  std::vector<SlotIndex> slots = worker.slots;
  Add(worker.backup, &slots);
  if (job.machine_groups) Add(job.machine_groups->SlotsOf(worker), &slots);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

// Also after version 0 is on disk, the worker that gave it may repeat what it has sent.
bool TakesWeightsOf(const Job& job, SessionId session) {
  return IsFounder(job, session) || (job.uploaders.initial && job.uploaders.initial->session == session);
}

std::vector<SessionFeed::Member> MembersOf(const Job& job) {
  std::vector<SessionFeed::Member> members;
  members.reserve(job.members.size());
  for (const auto& [joined, worker] : job.members.workers()) {
    members.push_back({worker.session, worker.name, SlotsOf(job, worker), TakesWeightsOf(job, worker.session),
                       worker.generation == job.journal.generation(), worker.view_sequence});
  }
  return members;
}

}  // namespace

bool TellShards(Job* job, TellWhen when, Outbox* out) {
  SessionFeed& feed = job->told.sessions;
  const bool now = when == TellWhen::kNow;
  const bool is_updated = feed.IsUpdated(job->told.view_sequence) && !(now && feed.any_earlier());
  if (!now && is_updated && !feed.any_unsent()) return true;
  if (!now && feed.turn_is_over()) return false;
  if (!is_updated) {
    SessionFeed::Moment moment{job->state.Is(CoordinatorState::kRunning), job->told.view_sequence, std::nullopt};
    if (HasGlobalSteps(job->options.config.mode())) moment.step = job->steps->step();
    feed.Update(MembersOf(*job), moment);
  }
  feed.Send(job->journal.term(), job->shards, out);
  return true;
}

}  // namespace capstan::server
