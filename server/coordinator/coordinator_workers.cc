// The coordinator and its workers: which may join, which slots each has, and the views that they get.
#include <algorithm>

#include "common/base/host_port.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr std::size_t kEmptyNamed = 8;  // shards named in one log line

// How many of the workers that the job begins with have joined.
std::string HowMany(std::size_t members, std::uint32_t wanted) {
  if (members <= wanted) return std::to_string(members) + " of " + std::to_string(wanted) + " workers";
  return std::to_string(members) + " workers, " + std::to_string(members - wanted) +
         " more than cluster.workers = " + std::to_string(wanted);
}

}  // namespace

Status Coordinator::CheckJoin(const Join& join) const {
  if (!join.job.IsNull() && join.job != job_.journal.job()) {
    return Refused("worker \"" + PrintableLine(join.worker) +
                   "\" belongs to another job, which ran here before or runs elsewhere: start it again, or check its "
                   "--coordinator");
  }
  if (join.worker.empty() || join.worker.size() > 128) return Invalid("a worker's name has 1 to 128 bytes");
  if (PrintableLine(join.worker) != join.worker) {
    return Invalid("a worker's name is text without control bytes, not \"" + PrintableLine(join.worker) + "\"");
  }
  const bool only_asks = join.rank == 0 && join.catalog.empty();  // for the job file; may be a reader
  if (!only_asks) CAPSTAN_RETURN_IF_ERROR(ranks_.Check(join, job_.slot_count, members_));
  if (!job_.journal.catalog_record() || join.catalog.empty()) return {};
  const CatalogRecord& job = *job_.journal.catalog_record();
  const std::string who = "worker \"" + join.worker + "\": ";
  if (std::string difference = DescribeDifference(job.tensors, join.catalog); !difference.empty()) {
    return Refused(who + difference + "; start it with the same build and job file");
  }
  if (job.numeric_class != join.numeric_class || job.numeric_fingerprint != join.numeric_fingerprint) {
    return Refused(who + "computes with other bits: it is of class \"" + join.numeric_class + "\" (probe " +
                   std::to_string(join.numeric_fingerprint) + "), the job's is \"" + job.numeric_class + "\" (probe " +
                   std::to_string(job.numeric_fingerprint) + "); use machines of one kind and one build");
  }
  if (job.data_fingerprint != join.data_fingerprint) {
    return Refused(who + "reads other data (fingerprint " + std::to_string(join.data_fingerprint) + ") than the job (" +
                   std::to_string(job.data_fingerprint) + "); check data.path on that machine");
  }
  return {};
}

Status Coordinator::AdoptCatalog(const Join& join) {
  if (job_.journal.catalog_record()) return {};
  Result<Catalog> catalog = Catalog::Create(join.catalog, job_.options.block_elements);
  if (!catalog.ok()) return catalog.status();
  const CatalogRecord record{join.catalog, join.numeric_class, join.numeric_fingerprint, join.data_fingerprint};
  Append(record);
  return {};
}

void Coordinator::On(PeerId from, const Join& join, Instant now, Outbox* out) {
  Status status = CheckJoin(join);
  const bool is_new = !job_.journal.catalog_record();
  if (status.ok() && !join.catalog.empty()) status = AdoptCatalog(join);
  if (is_new && job_.journal.catalog_record()) NameEmptyShards(out);
  if (!status.ok()) {
    out->Say(Severity::kWarning, "refused: " + status.message());
    job_.metrics->joins_refused.Add(1);
    RefuseTo(from, Code::kRefused, status.message(), out);
    return;
  }
  if (join.catalog.empty()) {
    View view = MakeView(nullptr);
    view.job_file = job_.options.job_file;
    if (job_.journal.catalog_record()) view.catalog = job_.journal.catalog_record()->tensors;
    out->Send(from, std::move(view));
    return;
  }
  const Worker* same = members_.Find(join.worker);
  if (same != nullptr && same->nonce == join.nonce) {  // a repeated Join
    Worker* worker = members_.Find(same->session);
    worker->peer = from;
    worker->last_heard = now;
    SendView(worker, out);
    return;
  }
  if (members_.IsSuperseded(join.nonce)) {
    RefuseTo(from, Code::kRefused,
             "a newer process has joined as \"" + join.worker + "\"; this one is the older and ends", out);
    return;
  }
  if (same != nullptr) {
    RefuseTo(same->peer, Code::kRefused,
             "another process joined as \"" + join.worker + "\"; this one is the older and ends", out);
    out->Say(Severity::kWarning, "\"" + join.worker + "\" joined again from another process; the newer one takes over");
    members_.Remove(same->session);
  } else if (members_.full()) {
    RefuseTo(from, Code::kBusy, "the job has all the workers it can hold", out);
    return;
  }
  if (std::optional<SessionRecord> more = job_.journal.SessionsToReserve()) Append(*more);
  Worker worker;
  worker.session = job_.journal.TakeSession();
  worker.name = join.worker;
  worker.nonce = join.nonce;
  worker.peer = from;
  worker.last_heard = now;
  worker.rank = join.rank;
  worker.machine = join.machine;
  if (IsHostPort(join.metrics)) worker.metrics = join.metrics;
  ranks_.Heard(worker, now);
  members_.Add(std::move(worker));
  job_.metrics->joins.Add(1);
  out->Say(Severity::kInfo,
           "\"" + join.worker + "\" joined (" + HowMany(members_.size(), job_.options.config.cluster.workers) + ")");
  Reassign(out);
  Advance(now, out);
}

void Coordinator::On(PeerId from, const Beat& beat, Instant now, Outbox* out) {
  if (beat.session.value == 0) {  // from a reader
    followers_.Heard(beat.nonce, now);
    out->Send(from, MakeView(nullptr));
    return;
  }
  Worker* worker = members_.Find(beat.session);
  if (worker == nullptr || worker->nonce != beat.nonce) {
    RefuseTo(from, Code::kStale, "unknown session; join again", out);
    return;
  }
  worker->peer = from;
  worker->last_heard = now;
  ranks_.Heard(*worker, now);
  const bool news =
      worker->generation != beat.generation || worker->step != beat.step || worker->computing != beat.computing;
  if (news) worker->since = now;
  worker->generation = beat.generation;
  worker->step = beat.step;
  worker->computing = beat.computing;
  worker->view_sequence = beat.view_sequence;
  worker->missing = beat.missing;
  const bool enters_barrier = worker->barrier != beat.barrier;  // otherwise nothing changed for it; Tick checks it
  worker->barrier = beat.barrier;
  if (local_groups_ && (worker->group_epoch != beat.group_epoch || worker->group != beat.group)) {
    worker->group_epoch = beat.group_epoch;
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    HearOfLocalGroup(*worker, now, out);
  }
  const bool replicated = WorkersUpdate(job_.options.config.mode());  // in other modes no generation begins for a group
  const bool news_of_group = worker->group != beat.group || worker->group_text != beat.group_text;
  if (replicated && beat.generation == job_.journal.generation() && news_of_group) {
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    HearOfGroup(*worker, out);
    Advance(now, out);
    worker = members_.Find(beat.session);
  }
  if (enters_barrier) PassBarrierWhenComplete(out);
  SendView(worker, out);
}

void Coordinator::On(const Leave& leave, Instant, Outbox* out) {
  if (leave.session.value == 0) followers_.Left(leave.nonce);
  const Worker* worker = members_.Find(leave.session);
  if (worker == nullptr || worker->nonce != leave.nonce) return;
  if (job_.state.now() != State::kFinished && job_.state.now() != State::kFailed) {
    out->Say(Severity::kInfo,
             "\"" + worker->name + "\" left: " + (leave.reason.empty() ? "asked to" : PrintableLine(leave.reason)));
  }
  members_.Remove(leave.session);
  Reassign(out);
}

void Coordinator::WorkerDied(const std::string& name, Instant, Outbox* out) {
  const Worker* worker = members_.Find(name);
  if (worker == nullptr) return;
  out->Say(Severity::kWarning, "\"" + name + "\" died; its slots move");
  members_.Remove(worker->session);
  job_.metrics->leases_lost.Add(1);
  Reassign(out);
}

void Coordinator::Reassign(Outbox* out) {
  if (!WorkersUpdate(job_.options.config.mode()) || job_.state.now() != State::kRunning) {
    DealSlots(out);
    return SendNewSlots(out);
  }
  if (GroupChanges()) AskForGroup("its workers are others", Recovery::kRegroup, out);
  ++view_sequence_;
  SendViews(out);
}

void Coordinator::DealSlots(Outbox* out) {
  const Dealing dealing = ReducesLocally(job_.options.config) ? Dealing::kByMachine : Dealing::kKeep;
  job_.metrics->slots_moved.Add(members_.Assign(job_.slot_count, dealing));
  NameIdleWorkers(out);
  if (local_groups_) (void)local_groups_->Update(members_, last_tick_);
  job_.metrics->slots_unassigned.Set(members_.size() == 0 ? static_cast<double>(job_.slot_count) : 0.0);
  ++view_sequence_;
}

void Coordinator::SendNewSlots(Outbox* out) {
  for (auto& [session, worker] : members_.workers()) {
    if (worker.has_new_slots || local_groups_) SendView(&worker, out);
  }
}

// Logs each idle worker once, while it has no slot.
void Coordinator::NameIdleWorkers(Outbox* out) {
  for (auto& [session, worker] : members_.workers()) {
    const bool idle = worker.slots.empty() && members_.size() > job_.slot_count;
    if (idle && !worker.idle) {
      out->Say(Severity::kWarning, "\"" + worker.name + "\" has nothing to compute: " + WhyIdle());
    }
    worker.idle = idle;
  }
}

std::string Coordinator::WhyIdle() const {
  return "other workers have the job's " + Count(job_.slot_count, "slot") +
         ", and it stands by for one that is lost; a job with more slots (job.slots) would have work for it, and other "
         "bits";
}

// A server without blocks cannot speed anything up.
void Coordinator::NameEmptyShards(Outbox* out) const {
  const ClusterSection& cluster = job_.options.config.cluster;
  std::vector<bool> has(job_.shards.size(), false);
  for (const ShardIndex shard : PlaceBlocks(*job_.journal.catalog(), job_.options.config.shard_count()))
    has[shard] = true;
  std::string names;
  std::size_t empty = 0;
  for (ShardIndex shard = 0; shard < job_.shards.size(); ++shard) {
    if (has[shard]) continue;
    if (++empty <= kEmptyNamed) AddName(&names, job_.shards.NameOf(shard));
  }
  if (empty == 0) return;
  if (empty > kEmptyNamed) AddName(&names, std::to_string(empty - kEmptyNamed) + " more");
  const std::size_t enough = (job_.shards.size() - empty + cluster.shards_per_server - 1) / cluster.shards_per_server;
  out->Say(Severity::kWarning, names + (empty == 1 ? " holds" : " hold") + " no parameters: the model is " +
                                   Count(job_.journal.catalog()->blocks().size(), "block") + ", and there are " +
                                   Count(job_.shards.size(), "shard") + "; set cluster.servers to " +
                                   std::to_string(std::max<std::size_t>(enough, 1)) +
                                   (cluster.shards_per_server > 1 ? ", or cluster.shards_per_server lower" : ""));
}

Instant Coordinator::SlowAfter() const { return job_.records.SlowAfter(job_.options.slow_after); }

// A worker that has not made progress for so long. It may hang in a step that others have done for it.
bool Coordinator::IsSlow(const Worker& worker, Instant now, Instant limit) const {
  return worker.computing && worker.generation == job_.journal.generation() && worker.step <= job_.steps->step() &&
         !worker.slots.empty() && now - worker.since >= limit;
}

// Whether it has done all its slots of the step under way. A worker without slots has none to do.
bool Coordinator::HasDoneStep(const Worker& worker) const {
  return worker.generation == job_.journal.generation() && !worker.computing &&
         (worker.step >= job_.steps->step() || worker.slots.empty());
}

Worker* Coordinator::FindIdleWorker() {
  Worker* idle = nullptr;
  for (auto& [session, worker] : members_.workers()) {
    if (!HasDoneStep(worker) || !worker.backup.empty()) continue;
    if (idle == nullptr || worker.slots.size() < idle->slots.size()) idle = &worker;
  }
  return idle;
}

// The first push counts; a second one is compared and ignored.
void Coordinator::BackUpSlowWorkers(Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !job_.steps->AllowsBackups() || ranks_.in_use()) return;
  const Instant limit = SlowAfter();
  for (auto& entry : members_.workers()) {
    const Worker& slow = entry.second;
    if (!IsSlow(slow, now, limit)) continue;
    Worker* helper = FindIdleWorker();
    if (helper == nullptr || helper == &slow) return;
    const bool backed = std::any_of(members_.workers().begin(), members_.workers().end(), [&](const auto& other) {
      const auto& backup = other.second.backup;
      return std::find(backup.begin(), backup.end(), slow.slots.front()) != backup.end();
    });
    if (backed) continue;
    helper->backup = slow.slots;
    job_.metrics->slots_backed_up.Add(slow.slots.size());
    out->Say(Severity::kWarning, "\"" + slow.name + "\" has computed step " + std::to_string(slow.step.value) +
                                     " for " + WholeSeconds(now - slow.since) + "; \"" + helper->name +
                                     "\" computes its slots as well");
    ++view_sequence_;
    SendView(helper, out);
  }
}

void Coordinator::ForgetBackups() {
  for (auto& [session, worker] : members_.workers()) {
    if (!worker.backup.empty()) ++view_sequence_;  // it learns of this with its next Beat
    worker.backup.clear();
  }
}

// Right after this coordinator's start earlier members may not have come back yet: then the barrier waits for all
// cluster.workers of them.
std::string Coordinator::MissingInBarrier() const {
  std::string who = barrier_.Missing(members_);
  if (ranks_.in_use()) {
    if (std::string ranks = ranks_.Missing(job_.slot_count, members_, last_tick_); !ranks.empty()) AddName(&who, ranks);
    return who;
  }
  const ClusterSection& cluster = job_.options.config.cluster;
  const std::size_t wanted = last_tick_ - started_ < lease() ? cluster.workers : cluster.min_workers;
  if (members_.size() < wanted) {
    AddName(&who, std::to_string(wanted - members_.size()) + " of " + Count(wanted, "worker") + " (not joined)");
  }
  return who;
}

void Coordinator::PassBarrierWhenComplete(Outbox* out) {
  if (!barrier_.AnyWaiting(members_) || !MissingInBarrier().empty()) return;
  barrier_.Pass(members_);
  ++view_sequence_;
  SendViews(out);
}

// Whether this worker, or a reader (null), may end once the last step is committed. A reader may, because the last
// version exists. Workers stay: if a shard is lost before the last snapshot exists, steps must be done again.
bool Coordinator::IsOverFor(const Worker* worker) const {
  return worker == nullptr || job_.journal.concluded() || shutting_down_;
}

View Coordinator::MakeView(const Worker* worker) const {
  View view;
  view.job = job_.journal.job();
  view.term = job_.journal.term();
  view.generation = job_.journal.generation();
  view.sequence = view_sequence_;
  view.slot_count = job_.slot_count;
  view.step = job_.steps->step();
  view.readable = job_.steps->readable();
  switch (job_.state.now()) {
    case State::kRunning: view.phase = JobPhase::kRunning; break;
    case State::kFinished: view.phase = IsOverFor(worker) ? JobPhase::kDone : JobPhase::kGathering; break;
    case State::kFailed: view.phase = JobPhase::kFailed; break;
    default: view.phase = JobPhase::kGathering;
  }
  view.message = job_.state.failure().message();
  view.barrier = barrier_.passed();
  if (worker != nullptr && job_.state.failure().ok() && barrier_.IsWaiting(*worker)) view.message = MissingInBarrier();
  // A finished job may be read with another number of servers than it ran with.
  const bool served = job_.journal.running() && job_.journal.running()->incarnations.size() == job_.shards.size();
  // A worker in this generation already has its shards' addresses and connections.
  const bool knows = worker != nullptr && worker->generation == job_.journal.generation();
  if (served && !knows && (job_.state.now() == State::kRunning || job_.state.now() == State::kFinished)) {
    for (ShardAddress& address : job_.shards.Addresses()) {
      address.incarnation = job_.journal.running()->incarnations[address.shard];
      view.shards.push_back(std::move(address));
    }
  }
  if (worker != nullptr) {
    view.session = worker->session;
    view.notice = worker->idle ? "this worker has nothing to compute: " + WhyIdle() : equal_slots_.text();
    view.founder = job_.state.now() == State::kRunning && job_.journal.AwaitsInitialWeights() && founder_ &&
                   founder_->session == worker->session;
    view.slots = worker->slots;
    view.slots.insert(view.slots.end(), worker->backup.begin(), worker->backup.end());
    std::sort(view.slots.begin(), view.slots.end());
    view.slots.erase(std::unique(view.slots.begin(), view.slots.end()), view.slots.end());  // some may be both
    view.group = GroupOf(*worker);
    if (local_groups_ && job_.state.now() == State::kRunning) {
      LocalGroups::Told told = local_groups_->Of(*worker, members_);
      view.group = std::move(told.members);
      view.group_epoch = told.epoch;
    }
  }
  return view;
}

View Coordinator::ReaderView() const { return MakeView(nullptr); }

void Coordinator::SendView(Worker* worker, Outbox* out) {
  worker->has_new_slots = false;
  out->Send(worker->peer, MakeView(worker));
}

void Coordinator::SendViews(Outbox* out) {
  for (auto& [session, worker] : members_.workers()) SendView(&worker, out);
}

}  // namespace capstan::server
