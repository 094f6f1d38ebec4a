#include "server/coordinator/joining_workers.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/host_port.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/declarations.h"
#include "server/coordinator/job.h"
#include "server/coordinator/job_course.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/join_check.h"

namespace capstan::server {

namespace {

// Returns how many workers have joined, in words that compare the number with cluster.workers.
std::string HowMany(std::size_t members, std::uint32_t wanted) {
  if (members <= wanted) return std::to_string(members) + " of " + std::to_string(wanted) + " workers";
  return std::to_string(members) + " workers, " + std::to_string(members - wanted) +
         " more than cluster.workers = " + std::to_string(wanted);
}

}  // namespace

void JoiningWorkers::Take(PeerId from, const Join& join, Instant now, Outbox* out) {
  if (Status status = CheckJoin(join, *job_); !status.ok()) {
    out->Log(Severity::kWarning, "refused: " + status.message());
    job_->metrics->joins_refused.Add(1);
    return SendError(*job_, from, Code::kRefused, status.message(), out);
  }
  if (join.catalog.empty()) return SendJobFile(from, out);
  if (!Answers(from, join, now, out)) Add(from, join, now, out);
}

void JoiningWorkers::SendJobFile(PeerId to, Outbox* out) const {
  View view = MakeView(*job_, nullptr);
  view.job_file = job_->options.job_file;
  if (job_->journal.catalog_record()) view.catalog = job_->journal.catalog_record()->tensors;
  out->Send(to, std::move(view));
}

bool JoiningWorkers::Answers(PeerId from, const Join& join, Instant now, Outbox* out) {
  if (Worker* same = job_->members.Find(join.worker, join.nonce)) {  // a repeated Join
    same->peer = from;
    same->last_message = now;
    same->gone = false;
    SendView(*job_, same, out);
    return true;
  }
  const Worker* before = job_->members.FindPeer(from);  // the same process, which has begun again
  Worker* holder = job_->members.HolderOf(join.rank);
  if (before == nullptr && job_->members.full()) {
    SendError(*job_, from, Code::kBusy, "the job has all the workers it can hold", out);
    return true;
  }
  if (holder != nullptr && holder != before) {
    AwaitRank(from, join, holder, out);
    return true;
  }
  if (before != nullptr) job_->members.Remove(before->session);
  return false;
}

void JoiningWorkers::Add(PeerId from, const Join& join, Instant now, Outbox* out) {
  std::shared_ptr<const CatalogRecord> declared;
  if (!job_->journal.catalog_record()) {
    declared = Declare(join, now, job_->lease(), &job_->members);
    if (!declared)
      return SendError(*job_, from, Code::kBusy, "too many workers declare different jobs; ask again later", out);
  }
  const bool is_new_declaration = declared && declared.use_count() == 1;
  if (std::optional<SessionRecord> more = job_->journal.SessionsToReserve()) course_->Append(*more);
  Worker worker;
  worker.session = job_->journal.TakeSession();
  worker.name = join.worker;
  worker.nonce = join.nonce;
  worker.peer = from;
  worker.joined = worker.last_message = now;
  worker.declared = std::move(declared);
  worker.left_out = job_->late.HoldsBack(now);
  worker.rank = join.rank;
  worker.machine = join.machine;
  if (IsHostPort(join.metrics)) worker.metrics = join.metrics;
  job_->ranks.NoteMessage(worker, now);
  Worker* const namesake = job_->members.QuietestNamed(join.worker);
  Worker& added = job_->members.Add(std::move(worker));
  job_->metrics->joins.Add(1);
  const std::size_t others = job_->members.size() - (namesake != nullptr ? 1 : 0);
  out->Log(Severity::kInfo,
           "\"" + join.worker + "\" joined (" + HowMany(others, job_->options.config.cluster.workers) + ")");
  NameMixedRanks(join, out);
  if (is_new_declaration) {
    if (std::string text = DisagreementText(job_->members); !text.empty()) out->Log(Severity::kWarning, std::move(text));
  }
  namesake != nullptr ? AskNamesake(namesake, out) : course_->Reassign(out);
  if (deal_is_due_) SendView(*job_, &added, out);  // without slots
  course_->Advance(now, out);
}

// Logs that a new worker gets no slots, because most have ranks and it has none, or the other way round.
void JoiningWorkers::NameMixedRanks(const Join& join, Outbox* out) const {
  if (job_->members.RanksInUse() == (join.rank != 0)) return;
  for (const auto& [session, worker] : job_->members.workers()) {
    if ((worker.rank != 0) == (join.rank != 0)) continue;
    return out->Log(Severity::kWarning, MixedRanksText(join.worker, join.rank, worker, job_->slot_count()) +
                                            ": it gets no slots while there are as many of the others");
  }
}

// Asks the process that had a new worker's name before for a sign of life. If its connection has ended, which is known at
// once, the new one takes its place, and its slots. Otherwise slots are dealt to both at the next Tick.
void JoiningWorkers::AskNamesake(Worker* namesake, Outbox* out) {
  if (namesake->gone) return Replace(*namesake, out);
  namesake->namesake = deal_is_due_ = true;
  SendView(*job_, namesake, out);
}

// Makes a process wait for a rank that another one has.
void JoiningWorkers::AwaitRank(PeerId from, const Join& join, Worker* holder, Outbox* out) {
  holder->claimant = from;
  if (holder->gone) return GiveRankUp(*holder, out);
  SendView(*job_, holder, out);
  SendError(*job_, from, Code::kBusy, TakenRankText(join, *holder) + "; this one waits until that one ends", out);
}

void JoiningWorkers::NoteAlive(Worker* worker, Outbox* out) {
  worker->gone = false;
  if (worker->delivered && worker->claimant.value != 0) {
    SendError(*job_, std::exchange(worker->claimant, {}), Code::kRefused,
              "\"" + worker->name + "\" has this rank, and computes; give this process another rank, or end the other",
              out);
  }
  if (std::exchange(worker->namesake, false)) {
    out->Log(Severity::kWarning, "two processes are called \"" + worker->name + "\"; both take part, as two workers");
  }
}

void JoiningWorkers::PeerGone(PeerId peer, Outbox* out) {
  Worker* const worker = job_->members.FindPeer(peer);
  if (worker == nullptr || std::exchange(worker->gone, true)) return;
  if (worker->claimant.value != 0) return GiveRankUp(*worker, out);
  if (worker->namesake) Replace(*worker, out);
}

void JoiningWorkers::Tick(Instant now, Outbox* out) {
  MoveRanks(now, out);
  if (std::exchange(deal_is_due_, false)) course_->Reassign(out);
}

// Gives ranks to processes that wait for them, where their workers deliver nothing: in a job that runs after the time
// after which workers are late, in one that gathers after a lease.
void JoiningWorkers::MoveRanks(Instant now, Outbox* out) {
  const bool running = job_->state.Is(CoordinatorState::kRunning);
  if (!running && !job_->state.Is(CoordinatorState::kCollecting)) return;
  const Instant patience = running ? job_->records.SlowAfter(job_->options.slow_after) : job_->lease();
  std::vector<SessionId> late;
  for (const auto& [session, worker] : job_->members.workers()) {
    const Instant since = running ? std::max(worker.slots_since, job_->records.last_commit()) : worker.joined;
    if (worker.claimant.value != 0 && !worker.delivered && now - since >= patience) late.push_back(session);
  }
  for (const SessionId session : late) GiveRankUp(*job_->members.Find(session), out);
}

// Removes a worker whose rank another process waits for, and has that process join.
void JoiningWorkers::GiveRankUp(const Worker& worker, Outbox* out) {
  const PeerId claimant = worker.claimant;
  Replace(worker, out);
  SendError(*job_, claimant, Code::kStale, "the rank is free; join again", out);
}

// Removes a worker, because another process takes its place.
void JoiningWorkers::Replace(const Worker& worker, Outbox* out) {
  out->Log(Severity::kWarning, "\"" + worker.name + (worker.gone ? "\" has ended" : "\" delivers nothing") +
                                   ", and another process takes its place");
  job_->members.Remove(worker.session);
  deal_is_due_ = false;
  course_->Reassign(out);
}

}  // namespace capstan::server
