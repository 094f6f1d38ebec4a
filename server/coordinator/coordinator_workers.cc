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
#include "server/coordinator/stragglers.h"

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
  if (!only_asks) CAPSTAN_RETURN_IF_ERROR(job_.ranks.Check(join, job_.slot_count(), job_.members));
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
  const Worker* same = job_.members.Find(join.worker);
  if (same != nullptr && same->nonce == join.nonce) {  // a repeated Join
    Worker* worker = job_.members.Find(same->session);
    worker->peer = from;
    worker->last_heard = now;
    SendView(worker, out);
    return;
  }
  if (job_.members.IsSuperseded(join.nonce)) {
    RefuseTo(from, Code::kRefused,
             "a newer process has joined as \"" + join.worker + "\"; this one is the older and ends", out);
    return;
  }
  if (same != nullptr) {
    RefuseTo(same->peer, Code::kRefused,
             "another process joined as \"" + join.worker + "\"; this one is the older and ends", out);
    out->Say(Severity::kWarning, "\"" + join.worker + "\" joined again from another process; the newer one takes over");
    job_.members.Remove(same->session);
  } else if (job_.members.full()) {
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
  job_.ranks.Heard(worker, now);
  job_.members.Add(std::move(worker));
  job_.metrics->joins.Add(1);
  out->Say(Severity::kInfo, "\"" + join.worker + "\" joined (" +
                                HowMany(job_.members.size(), job_.options.config.cluster.workers) + ")");
  Reassign(out);
  Advance(now, out);
}

void Coordinator::On(PeerId from, const Beat& beat, Instant now, Outbox* out) {
  if (beat.session.value == 0) {  // from a reader
    job_.followers.Heard(beat.nonce, now);
    out->Send(from, MakeView(nullptr));
    return;
  }
  Worker* worker = job_.members.Find(beat.session);
  if (worker == nullptr || worker->nonce != beat.nonce) {
    RefuseTo(from, Code::kStale, "unknown session; join again", out);
    return;
  }
  worker->peer = from;
  worker->last_heard = now;
  job_.ranks.Heard(*worker, now);
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
  if (job_.machine_groups && (worker->group_epoch != beat.group_epoch || worker->group != beat.group)) {
    worker->group_epoch = beat.group_epoch;
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    HearOfLocalGroup(*worker, now, out);
  }
  const bool news_of_group = worker->group != beat.group || worker->group_text != beat.group_text;
  if (job_.group && beat.generation == job_.journal.generation() && news_of_group) {
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    HearOfGroup(*worker, out);
    Advance(now, out);
    worker = job_.members.Find(beat.session);
  }
  if (enters_barrier) PassBarrierWhenComplete(out);
  SendView(worker, out);
}

void Coordinator::On(const Leave& leave, Instant, Outbox* out) {
  if (leave.session.value == 0) job_.followers.Left(leave.nonce);
  const Worker* worker = job_.members.Find(leave.session);
  if (worker == nullptr || worker->nonce != leave.nonce) return;
  if (job_.state.now() != State::kFinished && job_.state.now() != State::kFailed) {
    out->Say(Severity::kInfo,
             "\"" + worker->name + "\" left: " + (leave.reason.empty() ? "asked to" : PrintableLine(leave.reason)));
  }
  job_.members.Remove(leave.session);
  Reassign(out);
}

void Coordinator::WorkerDied(const std::string& name, Instant, Outbox* out) {
  const Worker* worker = job_.members.Find(name);
  if (worker == nullptr) return;
  out->Say(Severity::kWarning, "\"" + name + "\" died; its slots move");
  job_.members.Remove(worker->session);
  job_.metrics->leases_lost.Add(1);
  Reassign(out);
}

void Coordinator::Reassign(Outbox* out) {
  if (!job_.group || job_.state.now() != State::kRunning) {
    DealSlots(out);
    return SendNewSlots(out);
  }
  if (AllReduceGroup::Changes(job_.members, job_.slot_count())) AskForGroup("its workers are others", false, out);
  ++job_.view_sequence;
  SendViews(out);
}

void Coordinator::DealSlots(Outbox* out) {
  const Dealing dealing = ReducesLocally(job_.options.config) ? Dealing::kByMachine : Dealing::kKeep;
  job_.metrics->slots_moved.Add(job_.members.Assign(job_.slot_count(), dealing));
  NameIdleWorkers(out);
  if (job_.machine_groups) (void)job_.machine_groups->Update(job_.members, job_.clock.last_tick());
  job_.metrics->slots_unassigned.Set(job_.members.size() == 0 ? static_cast<double>(job_.slot_count()) : 0.0);
  ++job_.view_sequence;
}

void Coordinator::SendNewSlots(Outbox* out) {
  for (auto& [session, worker] : job_.members.workers()) {
    if (worker.has_new_slots || job_.machine_groups) SendView(&worker, out);
  }
}

// Logs each idle worker once, while it has no slot.
void Coordinator::NameIdleWorkers(Outbox* out) {
  for (auto& [session, worker] : job_.members.workers()) {
    const bool idle = worker.slots.empty() && job_.members.size() > job_.slot_count();
    if (idle && !worker.idle) {
      out->Say(Severity::kWarning, "\"" + worker.name + "\" has nothing to compute: " + WhyIdle());
    }
    worker.idle = idle;
  }
}

std::string Coordinator::WhyIdle() const {
  return "other workers have the job's " + Count(job_.slot_count(), "slot") +
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

void Coordinator::HelpSlowWorkers(Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !job_.steps->AllowsBackups() || job_.ranks.in_use()) return;
  const Instant limit = job_.records.SlowAfter(job_.options.slow_after);
  for (const auto& [slow, helper] : BackUpSlowWorkers(job_.work(), now, limit, &job_.members)) {
    job_.metrics->slots_backed_up.Add(slow->slots.size());
    out->Say(Severity::kWarning, "\"" + slow->name + "\" has computed step " + std::to_string(slow->step.value) +
                                     " for " + WholeSeconds(now - slow->since) + "; \"" + helper->name +
                                     "\" computes its slots as well");
    ++job_.view_sequence;
    SendView(helper, out);
  }
}

// Right after this coordinator's start earlier members may not have come back yet: then the barrier waits for all
// cluster.workers of them.
std::string Coordinator::MissingInBarrier() const {
  std::string who = job_.barrier.Missing(job_.members);
  if (job_.ranks.in_use()) {
    if (std::string ranks = job_.ranks.Missing(job_.slot_count(), job_.members, job_.clock.last_tick()); !ranks.empty())
      AddName(&who, ranks);
    return who;
  }
  const ClusterSection& cluster = job_.options.config.cluster;
  const std::size_t wanted =
      job_.clock.last_tick() - job_.clock.started() < job_.lease() ? cluster.workers : cluster.min_workers;
  if (job_.members.size() < wanted) {
    AddName(&who, std::to_string(wanted - job_.members.size()) + " of " + Count(wanted, "worker") + " (not joined)");
  }
  return who;
}

void Coordinator::PassBarrierWhenComplete(Outbox* out) {
  if (!job_.barrier.AnyWaiting(job_.members) || !MissingInBarrier().empty()) return;
  job_.barrier.Pass(job_.members);
  ++job_.view_sequence;
  SendViews(out);
}

// Whether this worker, or a reader (null), may end once the last step is committed. A reader may, because the last
// version exists. Workers stay: if a shard is lost before the last snapshot exists, steps must be done again.
bool Coordinator::IsOverFor(const Worker* worker) const {
  return worker == nullptr || job_.journal.concluded() || job_.ending.shutting_down;
}

View Coordinator::MakeView(const Worker* worker) const {
  View view;
  view.job = job_.journal.job();
  view.term = job_.journal.term();
  view.generation = job_.journal.generation();
  view.sequence = job_.view_sequence;
  view.slot_count = job_.slot_count();
  view.step = job_.steps->step();
  view.readable = job_.steps->readable();
  switch (job_.state.now()) {
    case State::kRunning: view.phase = JobPhase::kRunning; break;
    case State::kFinished: view.phase = IsOverFor(worker) ? JobPhase::kDone : JobPhase::kGathering; break;
    case State::kFailed: view.phase = JobPhase::kFailed; break;
    default: view.phase = JobPhase::kGathering;
  }
  view.message = job_.state.failure().message();
  view.barrier = job_.barrier.passed();
  if (worker != nullptr && job_.state.failure().ok() && job_.barrier.IsWaiting(*worker))
    view.message = MissingInBarrier();
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
    view.notice = worker->idle ? "this worker has nothing to compute: " + WhyIdle() : job_.equal_slots.text();
    view.founder = job_.state.now() == State::kRunning && job_.journal.AwaitsInitialWeights() && job_.initial_source &&
                   job_.initial_source->session == worker->session;
    view.slots = worker->slots;
    view.slots.insert(view.slots.end(), worker->backup.begin(), worker->backup.end());
    std::sort(view.slots.begin(), view.slots.end());
    view.slots.erase(std::unique(view.slots.begin(), view.slots.end()), view.slots.end());  // some may be both
    if (job_.group && job_.state.now() == State::kRunning) view.group = job_.group->Of(*worker, job_.members);
    if (job_.machine_groups && job_.state.now() == State::kRunning) {
      LocalGroups::Told told = job_.machine_groups->Of(*worker, job_.members);
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
  for (auto& [session, worker] : job_.members.workers()) SendView(&worker, out);
}

}  // namespace capstan::server
