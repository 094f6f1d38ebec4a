#include "server/coordinator.h"

#include <algorithm>
#include <type_traits>

#include "server/admission.h"

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);
constexpr Instant kShardSilence = std::chrono::seconds(3);  // after which a rival for its index is believed

std::string ShardName(ShardIndex shard, std::uint32_t per_server) {
  std::string name = "server " + std::to_string(shard / per_server);
  if (per_server > 1) name += " (shard " + std::to_string(shard % per_server) + ")";
  return name;
}

double ToSeconds(Instant time) { return std::chrono::duration<double>(time).count(); }

std::string WholeSeconds(Instant time) { return std::to_string(static_cast<long>(ToSeconds(time))) + " s"; }

void AddName(std::string* list, const std::string& name) { *list += (list->empty() ? "" : ", ") + name; }

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorLog* log,
                         std::shared_ptr<monitoring::CoordinatorMetrics> metrics, Instant now)
    : options_(std::move(options)),
      log_(log),
      metrics_(std::move(metrics)),
      slot_count_(options_.config.job.slots),
      shards_(options_.config.shard_count()),
      started_(now),
      last_progress_(now),
      last_commit_(now),
      next_report_(now + Seconds(options_.config.limits.report)) {
  CAPSTAN_CHECK(slot_count_ > 0 && !shards_.empty());
  Replay();
  if (job_.IsNull()) Append(JobRecord{options_.job, HashJobConfig(options_.config)});
  Append(TermRecord{term_.Next()});
  metrics_->steps_wanted.Set(static_cast<double>(options_.config.job.steps));
  metrics_->slots.Set(static_cast<double>(slot_count_));
  metrics_->term.Set(static_cast<double>(term_.value));
}

Instant Coordinator::Seconds(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
}

void Coordinator::Replay() {
  const std::vector<LogRecord> records = log_->records();
  for (const LogRecord& record : records) {
    std::visit(
        [&](const auto& body) {
          using Body = std::decay_t<decltype(body)>;
          if constexpr (std::is_same_v<Body, JobRecord>) job_ = body.job;
          if constexpr (std::is_same_v<Body, TermRecord>) term_ = body.term;
          if constexpr (std::is_same_v<Body, SessionRecord>) sessions_ = body.session.value;
          if constexpr (std::is_same_v<Body, CatalogRecord>) InstallCatalog(body);
          if constexpr (std::is_same_v<Body, RecoverRecord>) {
            recover_ = body;
            generation_ = body.generation;
            running_.reset();
          }
          if constexpr (std::is_same_v<Body, RunningRecord>) running_ = body;
        },
        record);
  }
}

void Coordinator::Append(LogRecord record) {
  if (const auto* job = std::get_if<JobRecord>(&record)) job_ = job->job;
  if (const auto* term = std::get_if<TermRecord>(&record)) term_ = term->term;
  if (const auto* session = std::get_if<SessionRecord>(&record)) sessions_ = session->session.value;
  if (Status status = log_->Append(std::move(record)); !status.ok()) {
    state_ = State::kFailed;
    failure_ = "the coordinator's log cannot be written: " + status.message();
  }
}

void Coordinator::InstallCatalog(const CatalogRecord& record) {
  Result<Catalog> catalog = Catalog::Create(record.tensors, options_.block_elements);
  CAPSTAN_CHECK(catalog.ok());  // it was checked before it was logged
  catalog_record_ = record;
  catalog_ = std::make_unique<Catalog>(std::move(catalog).value());
  order_ = std::make_unique<SegmentOrder>(*catalog_, options_.config.shard_count());
}

void Coordinator::Fail(std::string reason, Outbox* out) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  failure_ = std::move(reason);
  out->Say(Severity::kError, failure_);
  SendViews(out);
}

void Coordinator::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, Hello> || std::is_same_v<Body, Join> || std::is_same_v<Body, Beat>) {
          On(from, body, now, out);
        } else if constexpr (std::is_same_v<Body, ResetDone> || std::is_same_v<Body, Prepared> ||
                             std::is_same_v<Body, Committed> || std::is_same_v<Body, Progress> ||
                             std::is_same_v<Body, Leave>) {
          On(body, now, out);
        } else if constexpr (std::is_same_v<Body, ResetBad>) {
          On(body, out);
        } else if constexpr (!std::is_same_v<Body, Error>) {
          RefuseTo(from, Code::kInvalid, "the coordinator does not take this message", out);
        }
      },
      message.header);
}

void Coordinator::RefuseTo(PeerId to, Code code, std::string message, Outbox* out) const {
  Error error;
  error.code = code;
  error.generation = generation_;
  error.step = step_;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

// ---- shards --------------------------------------------------------------------------------------------------------

Status Coordinator::CheckHello(const Hello& hello) const {
  if (hello.shard >= shards_.size()) {
    return Refused("shard index " + std::to_string(hello.shard) + " is not below the job's " +
                   std::to_string(shards_.size()) + " shards; check --index and cluster.servers");
  }
  if (hello.config_hash != HashJobConfig(options_.config)) {
    return Refused(ShardName(hello.shard, options_.config.cluster.shards_per_server) +
                   " was started with another job file than the coordinator; start all of them with the same file");
  }
  if (hello.generation > generation_ || hello.term > term_) {
    return Refused(ShardName(hello.shard, options_.config.cluster.shards_per_server) + " has seen generation " +
                   std::to_string(hello.generation.value) + " of this job, the coordinator only " +
                   std::to_string(generation_.value) + ": the coordinator's directory is older than the shard's");
  }
  return {};
}

// Whether `hello` comes from the process that owns this index. Two live processes with one index: the first keeps it.
bool Coordinator::AcceptHello(ShardState* shard, PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (!shard->hello || hello.incarnation == shard->hello->incarnation) {
    if (shard->rival.value != 0 && from == shard->peer && now > shard->rival_since) {
      RefuseTo(shard->rival, Code::kRefused,
               ShardName(hello.shard, options_.config.cluster.shards_per_server) + " is already running at " +
                   hello.endpoint + "; stop one of the two or give this one another --index",
               out);
      shard->rival = {};
    }
    return true;
  }
  if (from == shard->peer) return hello.incarnation > shard->hello->incarnation;  // else: late, from before
  if (now - shard->last_heard < kShardSilence) {  // the regular Ping will tell whether the first one lives
    if (shard->rival != from) {
      shard->rival = from;
      shard->rival_since = now;
    }
    return false;
  }
  return hello.incarnation > shard->hello->incarnation;
}

void Coordinator::On(PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (Status status = CheckHello(hello); !status.ok()) {
    RefuseTo(from, status.code(), status.message(), out);
    out->Say(Severity::kError, status.message());
    return;
  }
  ShardState& shard = shards_[hello.shard];
  if (!AcceptHello(&shard, from, hello, now, out)) return;
  const bool other_life = shard.hello && hello.incarnation != shard.hello->incarnation;
  if (other_life) shard = {};
  const bool known = shard.hello.has_value();
  shard.peer = from;
  shard.last_heard = now;
  shard.rival = {};
  // Within one life a shard's generation and term only rise; a late Hello is not the newest word.
  if (!known || (hello.term >= shard.hello->term && hello.generation >= shard.hello->generation)) shard.hello = hello;
  shard.fresh = shard.fresh || hello.term == term_;
  if (!shard.fresh) {
    out->Send(from, Ping{term_, generation_});
    return;
  }
  const bool ran = (state_ == State::kRunning || state_ == State::kFinished) && running_;
  if (ran && hello.incarnation > running_->incarnations[hello.shard]) {
    out->Say(Severity::kWarning, ShardName(hello.shard, options_.config.cluster.shards_per_server) +
                                     " came back without its state; every shard goes back to version 0");
    StartRecovery(out);
  }
  Advance(now, out);
}

void Coordinator::On(const ResetDone& done, Instant now, Outbox* out) {
  if (state_ != State::kResetting || done.shard >= shards_.size() || done.generation != generation_) return;
  ShardState& shard = shards_[done.shard];
  if (!shard.hello || shard.hello->incarnation != done.incarnation) return;
  shard.reset_done = true;
  shard.last_heard = now;
  Advance(now, out);
}

void Coordinator::On(const ResetBad& bad, Outbox* out) {
  if (state_ != State::kResetting || bad.shard >= shards_.size() || bad.generation != generation_) return;
  Fail(ShardName(bad.shard, options_.config.cluster.shards_per_server) + " cannot serve version " +
           std::to_string(recover_->version.value) + ": " + bad.reason,
       out);
}

void Coordinator::On(const Prepared& prepared, Instant now, Outbox* out) {
  if (state_ != State::kRunning || prepared.shard >= shards_.size() || prepared.generation != generation_) return;
  if (prepared.incarnation != running_->incarnations[prepared.shard]) return;
  ShardState& shard = shards_[prepared.shard];
  shard.last_heard = now;
  if (prepared.step < step_) {  // it has not seen the Commit: everything older than pending_ is held by all
    if (pending_ && shard.hello) out->Send(shard.peer, *pending_);
    return;
  }
  if (prepared.report.segment_squares.size() != order_->segment_count(prepared.shard)) return;
  if (shard.prepared && shard.prepared->step == prepared.step && shard.prepared->attempt >= prepared.attempt) return;
  shard.prepared = prepared;
  Advance(now, out);
}

void Coordinator::On(const Committed& committed, Instant now, Outbox* out) {
  if (state_ != State::kRunning || committed.shard >= shards_.size() || committed.generation != generation_) return;
  if (committed.incarnation != running_->incarnations[committed.shard]) return;
  ShardState& shard = shards_[committed.shard];
  shard.last_heard = now;
  if (!shard.committed || *shard.committed < committed.step) shard.committed = committed.step;
  Advance(now, out);
}

std::vector<ShardAddress> Coordinator::shards() const {
  std::vector<ShardAddress> addresses;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].hello) return {};
    addresses.push_back({i, shards_[i].hello->incarnation, shards_[i].hello->endpoint});
  }
  return addresses;
}

// ---- the course of a job -------------------------------------------------------------------------------------------

void Coordinator::Advance(Instant now, Outbox* out) {
  if (state_ == State::kCollecting) LeaveCollecting(now, out);
  if (state_ == State::kResetting) {
    const bool all = std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.reset_done; });
    if (all) EnterRunning(now, out);
    if (!all) SendResets(now, out);
  }
  if (state_ == State::kRunning) DecideStep(now, out);
}

bool Coordinator::EnoughMembers(Instant now) const {
  if (members_.size() >= options_.config.cluster.workers) return true;
  return members_.size() >= options_.config.cluster.min_workers &&
         now - started_ >= Seconds(options_.config.limits.join / 2);
}

void Coordinator::LeaveCollecting(Instant now, Outbox* out) {
  const bool all = std::all_of(shards_.begin(), shards_.end(), [](const ShardState& shard) { return shard.fresh; });
  if (!all || !catalog_) return;
  if (running_ && ShardsLiveOn()) {
    ResumeRunning(now, out);
  } else if (recover_ && !running_) {
    state_ = State::kResetting;  // the coordinator died between RECOVER and RUNNING: go on with it
  } else if (EnoughMembers(now) || recover_) {
    StartRecovery(out);
  }
}

// Whether every shard still holds the running generation.
bool Coordinator::ShardsLiveOn() const {
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const Hello& hello = *shards_[i].hello;
    if (!hello.serving || hello.generation != generation_ || hello.incarnation != running_->incarnations[i]) return false;
  }
  return true;
}

// A new coordinator takes a running generation over. Some shards may have published one step more than others: that
// step's Commit is sent again, verbatim but for the term.
void Coordinator::ResumeRunning(Instant now, Outbox* out) {
  state_ = State::kRunning;
  last_progress_ = last_commit_ = now;
  const ShardState* newest = &shards_.front();
  for (const ShardState& shard : shards_) {
    if (shard.hello->version > newest->hello->version) newest = &shard;
  }
  step_ = Step{newest->hello->version.value};
  parameters_ = recover_->parameters;
  if (!HasGlobalSteps(options_.config.job.mode)) parameters_ = ParametersOf(options_.config, step_, step_.value);
  attempt_ = 0;
  pending_.reset();
  if (newest->hello->last_commit) {
    Commit commit = *newest->hello->last_commit;
    commit.term = term_;
    parameters_ = commit.next;
    pending_ = commit;
  }
  for (ShardState& shard : shards_) {
    if (shard.hello->version.value > 0) shard.committed = Step{shard.hello->version.value - 1};
    shard.prepared = shard.hello->prepared;
    if (shard.prepared && shard.prepared->step != step_) shard.prepared.reset();
    if (shard.prepared) attempt_ = std::max(attempt_, shard.prepared->attempt);
  }
  // Shards may stand at different attempts of one step; the verdict is pure, so Redo is simply decided again.
  attempt_ = 0;
  pending_backoff_.Restart();
  if (parameters_.stop) StepCommitted(now, out);
  SendPending(now, out);
  Reassign(now, out);
}

void Coordinator::StartRecovery(Outbox* out) {
  state_ = State::kResetting;
  generation_ = generation_.Next();
  recover_ = RecoverRecord{generation_, Version{0}, ParametersOf(options_.config, Step{0}, 0)};
  running_.reset();
  pending_.reset();
  pending_record_.reset();
  async_reports_.clear();
  Append(*recover_);
  for (ShardState& shard : shards_) {
    shard.reset_done = false;
    shard.prepared.reset();
    shard.committed.reset();
    shard.progress.reset();
  }
  if (generation_.value > 1) metrics_->recoveries.Add(1);
  metrics_->generation.Set(static_cast<double>(generation_.value));
  reset_backoff_.Restart();
  ++view_sequence_;
  out->Say(Severity::kInfo, "generation " + std::to_string(generation_.value) + " starts from version 0");
}

void Coordinator::SendResets(Instant now, Outbox* out) {
  if (!reset_backoff_.Due(now)) return;
  reset_backoff_.Sent(now);
  for (const ShardState& shard : shards_) {
    if (shard.reset_done || !shard.hello) continue;
    out->Send(shard.peer, Reset{term_, generation_, shard.hello->incarnation, recover_->version, recover_->parameters,
                                slot_count_, catalog_record_->tensors});
  }
}

void Coordinator::EnterRunning(Instant now, Outbox* out) {
  RunningRecord running{generation_, {}};
  for (const ShardState& shard : shards_) running.incarnations.push_back(shard.hello->incarnation);
  Append(running);
  if (state_ == State::kFailed) return;
  running_ = std::move(running);
  state_ = State::kRunning;
  step_ = Step{recover_->version.value};
  parameters_ = recover_->parameters;
  attempt_ = 0;
  last_progress_ = last_commit_ = now;
  out->Say(Severity::kInfo, "running: " + std::to_string(shards_.size()) + " shards, " +
                                std::to_string(members_.size()) + " workers, " + std::to_string(slot_count_) + " slots");
  Reassign(now, out);
}

std::vector<const Prepared*> Coordinator::AllPrepared(std::uint32_t attempt) const {
  std::vector<const Prepared*> prepared;
  for (const ShardState& shard : shards_) {
    if (!shard.prepared || shard.prepared->step != step_ || shard.prepared->attempt < attempt) return {};
    prepared.push_back(&*shard.prepared);
  }
  return prepared;
}

void Coordinator::DecideStep(Instant now, Outbox* out) {
  if (parameters_.stop) return;
  // A shard that a former coordinator asked to redo may already stand at attempt 1.
  const std::vector<const Prepared*> prepared = AllPrepared(attempt_);
  if (prepared.empty()) return;
  Verdict verdict = Decide(options_.config, *catalog_, *order_, prepared, attempt_, parameters_);
  pending_backoff_.Restart();
  switch (verdict.kind) {
    case Verdict::Kind::kStop: Fail(std::move(verdict.reason), out); return;
    case Verdict::Kind::kRedo:
      ++attempt_;
      metrics_->steps_redone.Add(1);
      pending_ = Redo{term_, generation_, step_, attempt_, verdict.clip};
      SendPending(now, out);
      DecideStep(now, out);
      return;
    case Verdict::Kind::kCommit: break;
  }
  (verdict.action == StepAction::kApply ? metrics_->steps_applied : metrics_->steps_skipped).Add(1);
  pending_ = Commit{term_, generation_, step_, attempt_, verdict.action, verdict.next};
  Record(std::move(verdict.record), now);
  step_ = step_.Next();
  attempt_ = 0;
  parameters_ = verdict.next;
  last_progress_ = now;
  SendPending(now, out);
}

void Coordinator::SendPending(Instant now, Outbox* out) {
  if (!pending_ || !pending_backoff_.Due(now)) return;
  bool sent = false;
  for (const ShardState& shard : shards_) {
    const auto* commit = std::get_if<Commit>(&*pending_);
    const auto* redo = std::get_if<Redo>(&*pending_);
    const bool answered = commit != nullptr ? shard.committed && *shard.committed >= commit->step
                                            : shard.prepared && shard.prepared->step == redo->step &&
                                                  shard.prepared->attempt >= redo->attempt;
    if (answered || shard.peer.value == 0) continue;
    out->Send(shard.peer, *pending_);
    sent = true;
  }
  if (sent) pending_backoff_.Sent(now);
  if (!sent && parameters_.stop) StepCommitted(now, out);
}

// The last step is on every shard: the job is done.
void Coordinator::StepCommitted(Instant, Outbox* out) {
  for (const ShardState& shard : shards_) {
    if (!shard.committed || shard.committed->value + 1 != step_.value) return;
  }
  state_ = State::kFinished;
  ++view_sequence_;
  SendViews(out);
}

void Coordinator::Record(StepRecord record, Instant now) {
  record.seconds = ToSeconds(now - last_commit_);
  last_commit_ = now;
  metrics_->step.Set(static_cast<double>(record.step.value));
  metrics_->samples.Add(record.samples);
  metrics_->step_seconds.Observe(record.seconds);
  metrics_->loss.Set(record.loss);
  metrics_->learning_rate.Set(record.learning_rate);
  metrics_->gradient_norm.Set(record.gradient_norm);
  if (record.validation_loss) metrics_->validation_loss.Set(*record.validation_loss);
  records_.push_back(std::move(record));
}

std::vector<StepRecord> Coordinator::TakeRecords() { return std::exchange(records_, {}); }

// ---- modes without global steps ------------------------------------------------------------------------------------

void Coordinator::On(const Progress& progress, Instant now, Outbox* out) {
  if (state_ != State::kRunning || progress.shard >= shards_.size() || progress.generation != generation_) return;
  if (progress.incarnation != running_->incarnations[progress.shard]) return;
  if (progress.clocks.size() != slot_count_) return;
  ShardState& shard = shards_[progress.shard];
  shard.last_heard = now;
  shard.progress = progress;
  for (const Progress::Entry& entry : progress.reports) {
    if (entry.step.value > step_.value) async_reports_[entry.step.value].try_emplace(entry.report.slot, entry.report);
  }
  AdvanceClock(now, out);
}

// step_ is the slowest slot's clock: all slots have step_ pushes in the weights of every shard.
void Coordinator::AdvanceClock(Instant now, Outbox* out) {
  std::uint64_t clock = options_.config.job.steps;
  for (const ShardState& shard : shards_) {
    if (!shard.progress) return;
    for (std::uint64_t slot_clock : shard.progress->clocks) clock = std::min(clock, slot_clock);
  }
  const Step before = step_;
  while (step_.value < clock) {
    const auto reports = async_reports_.find(step_.value + 1);
    if (reports == async_reports_.end() || reports->second.size() < slot_count_) break;
    StepRecord record;
    record.generation = generation_;
    record.step = step_;
    record.learning_rate = static_cast<double>(parameters_.learning_rate);
    std::vector<SlotReport> all;
    for (const auto& [slot, report] : reports->second) all.push_back(report);
    AddSlotReports(std::move(all), &record);
    Record(std::move(record), now);
    metrics_->steps_applied.Add(1);
    async_reports_.erase(reports);
    step_ = step_.Next();
    parameters_ = ParametersOf(options_.config, step_, step_.value);
  }
  if (step_ == before) return;
  last_progress_ = now;
  for (const ShardState& shard : shards_) out->Send(shard.peer, Rates{term_, generation_, step_, parameters_});
  if (parameters_.stop) {
    state_ = State::kFinished;
    ++view_sequence_;
    SendViews(out);
  }
}

// ---- workers -------------------------------------------------------------------------------------------------------

Status Coordinator::CheckJoin(const Join& join) const {
  if (!join.job.IsNull() && join.job != job_) return Refused("this coordinator runs another job; check --coordinator");
  if (join.worker.empty() || join.worker.size() > 128) return Invalid("a worker's name has 1 to 128 bytes");
  if (!catalog_record_ || join.catalog.empty()) return {};
  const CatalogRecord& job = *catalog_record_;
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
    return Refused(who + "reads other data (fingerprint " + std::to_string(join.data_fingerprint) +
                   ") than the job (" + std::to_string(job.data_fingerprint) + "); check data.path on that machine");
  }
  return {};
}

Status Coordinator::AdoptCatalog(const Join& join) {
  if (catalog_record_) return {};
  Result<Catalog> catalog = Catalog::Create(join.catalog, options_.block_elements);
  if (!catalog.ok()) return catalog.status();
  const CatalogRecord record{join.catalog, join.numeric_class, join.numeric_fingerprint, join.data_fingerprint};
  Append(record);
  InstallCatalog(record);
  return {};
}

void Coordinator::On(PeerId from, const Join& join, Instant now, Outbox* out) {
  Status status = CheckJoin(join);
  if (status.ok() && !join.catalog.empty()) status = AdoptCatalog(join);
  if (!status.ok()) {
    out->Say(Severity::kWarning, "refused: " + status.message());
    metrics_->joins_refused.Add(1);
    RefuseTo(from, Code::kRefused, status.message(), out);
    return;
  }
  if (join.catalog.empty()) {
    View view = MakeView(nullptr);
    view.job_file = options_.job_file;
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
  if (same != nullptr) {
    RefuseTo(same->peer, Code::kRefused,
             "another process joined as \"" + join.worker + "\"; this one is the older and ends", out);
    out->Say(Severity::kWarning, "\"" + join.worker + "\" joined again from another process; the newer one takes over");
    members_.Remove(same->session);
  } else if (members_.full()) {
    RefuseTo(from, Code::kBusy, "the job has all the workers it can hold", out);
    return;
  }
  Append(SessionRecord{SessionId{sessions_ + 1}});
  Worker worker;
  worker.session = SessionId{sessions_};
  worker.name = join.worker;
  worker.nonce = join.nonce;
  worker.peer = from;
  worker.last_heard = now;
  members_.Add(std::move(worker));
  metrics_->joins.Add(1);
  out->Say(Severity::kInfo, "\"" + join.worker + "\" joined (" + std::to_string(members_.size()) + " of " +
                                std::to_string(options_.config.cluster.workers) + " workers)");
  Reassign(now, out);
  Advance(now, out);
}

void Coordinator::On(PeerId from, const Beat& beat, Instant now, Outbox* out) {
  Worker* worker = members_.Find(beat.session);
  if (worker == nullptr || worker->nonce != beat.nonce) {
    RefuseTo(from, Code::kStale, "unknown session; join again", out);
    return;
  }
  worker->peer = from;
  worker->last_heard = now;
  worker->generation = beat.generation;
  worker->step = beat.step;
  worker->computing = beat.computing;
  worker->view_sequence = beat.view_sequence;
  worker->missing = beat.missing;
  SendView(worker, out);
}

void Coordinator::On(const Leave& leave, Instant now, Outbox* out) {
  const Worker* worker = members_.Find(leave.session);
  if (worker == nullptr || worker->nonce != leave.nonce) return;
  if (state_ != State::kFinished) {
    out->Say(Severity::kInfo, "\"" + worker->name + "\" left: " + (leave.reason.empty() ? "asked to" : leave.reason));
  }
  members_.Remove(leave.session);
  Reassign(now, out);
}

void Coordinator::WorkerDied(const std::string& name, Instant now, Outbox* out) {
  const Worker* worker = members_.Find(name);
  if (worker == nullptr) return;
  out->Say(Severity::kWarning, "\"" + name + "\" died; its slots move");
  members_.Remove(worker->session);
  metrics_->leases_lost.Add(1);
  Reassign(now, out);
}

void Coordinator::Reassign(Instant, Outbox* out) {
  metrics_->slots_moved.Add(members_.Assign(slot_count_));
  metrics_->slots_unassigned.Set(members_.size() == 0 ? static_cast<double>(slot_count_) : 0.0);
  ++view_sequence_;
  SendViews(out);
}

View Coordinator::MakeView(const Worker* worker) const {
  View view;
  view.job = job_;
  view.term = term_;
  view.generation = generation_;
  view.sequence = view_sequence_;
  view.slot_count = slot_count_;
  view.step = step_;
  switch (state_) {
    case State::kRunning: view.phase = JobPhase::kRunning; break;
    case State::kFinished: view.phase = JobPhase::kDone; break;
    case State::kFailed: view.phase = JobPhase::kFailed; break;
    default: view.phase = JobPhase::kGathering;
  }
  view.message = failure_;
  if (state_ == State::kRunning || state_ == State::kFinished) {
    for (ShardAddress& address : shards()) {
      address.incarnation = running_->incarnations[address.shard];
      view.shards.push_back(std::move(address));
    }
  }
  if (worker != nullptr) {
    view.session = worker->session;
    view.slots = worker->slots;
  }
  return view;
}

View Coordinator::ReaderView() const { return MakeView(nullptr); }

void Coordinator::SendView(Worker* worker, Outbox* out) const { out->Send(worker->peer, MakeView(worker)); }

void Coordinator::SendViews(Outbox* out) {
  for (auto& [session, worker] : members_.workers()) SendView(&worker, out);
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Coordinator::Tick(Instant now, Outbox* out) {
  if (now >= next_ping_) {
    next_ping_ = now + (shutting_down_ ? kShutdownEvery : kPingEvery);
    for (const ShardState& shard : shards_) {
      if (shard.peer.value == 0) continue;
      if (shutting_down_) {
        out->Send(shard.peer, capstan::Shutdown{term_, generation_});
      } else {
        out->Send(shard.peer, Ping{term_, generation_});
        if ((state_ == State::kRunning || state_ == State::kFinished) && shard.progress) {
          out->Send(shard.peer, Rates{term_, generation_, step_, parameters_});
        }
      }
    }
  }
  for (const Worker& lost : members_.RemoveSilent(now, Seconds(options_.config.limits.lease))) {
    metrics_->leases_lost.Add(1);
    out->Say(Severity::kWarning, "\"" + lost.name + "\" has been silent for " + WholeSeconds(now - lost.last_heard) +
                                     "; its slots move");
    Reassign(now, out);
  }
  Advance(now, out);
  SendPending(now, out);
  CheckDeadlines(now, out);
  metrics_->workers[monitoring::MemberState::kAlive].Set(static_cast<double>(members_.size()));
}

void Coordinator::Shutdown() {
  shutting_down_ = true;
  next_ping_ = Instant{};
}

std::string Coordinator::WaitingFor(Instant now) const {
  std::string who;
  const std::uint32_t per_server = options_.config.cluster.shards_per_server;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const ShardState& shard = shards_[i];
    if (!shard.hello) {
      AddName(&who, ShardName(i, per_server) + " (never seen)");
    } else if (now - shard.last_heard >= kShardSilence) {
      AddName(&who, ShardName(i, per_server) + " at " + shard.hello->endpoint + " (silent for " +
                        WholeSeconds(now - shard.last_heard) + ")");
    }
  }
  const std::size_t wanted = options_.config.cluster.workers;
  if (state_ != State::kRunning && members_.size() < wanted) {
    AddName(&who, std::to_string(wanted - members_.size()) + " of " + std::to_string(wanted) + " workers (not joined)");
  }
  if (state_ == State::kRunning) {
    if (members_.size() == 0) AddName(&who, "a worker (none is left)");
    for (const auto& [session, worker] : members_.workers()) {
      if (worker.slots.empty() || !(worker.computing || worker.step < step_ || worker.generation != generation_)) continue;
      AddName(&who, "\"" + worker.name + "\" (step " + std::to_string(worker.step.value) + ", last heard " +
                        WholeSeconds(now - worker.last_heard) + " ago)");
    }
  }
  return who;
}

void Coordinator::CheckDeadlines(Instant now, Outbox* out) {
  if (state_ == State::kFinished || state_ == State::kFailed) return;
  const LimitsSection& limits = options_.config.limits;
  const Instant waited = now - last_progress_;
  if (waited < Seconds(limits.report)) return;
  const bool gathering = !recover_;
  const double limit = gathering ? limits.join : limits.stall;
  const std::string waiting = WaitingFor(now);
  if (limit > 0 && waited >= Seconds(limit)) {
    Fail(std::string(gathering ? "the job did not start within " : "no step was committed for ") + WholeSeconds(waited) +
             "; waited for: " + (waiting.empty() ? "nobody in particular" : waiting),
         out);
  } else if (now >= next_report_) {
    next_report_ = now + Seconds(limits.report);
    out->Say(Severity::kWarning, "waiting " + WholeSeconds(waited) + " for " +
                                     (waiting.empty() ? "the shards' answers" : waiting) +
                                     (limit > 0 ? "; giving up after " + WholeSeconds(Seconds(limit)) : ""));
  }
}

}  // namespace capstan::server
