#include "worker/client/reader_core.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"

namespace capstan::client {

namespace {

constexpr Instant kAskEvery = std::chrono::milliseconds(500);
constexpr Instant kAskSoonest = std::chrono::milliseconds(50);
constexpr Instant kSlowStep = std::chrono::seconds(2);
constexpr std::uint64_t kStepsPastMax = 32;  // shards park pulls of versions up to twice as far away
constexpr Instant kReaderStoodStill = std::chrono::seconds(1);

std::string Seconds(Instant time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

// Whether the view is well formed: shards are numbered 0, 1, 2 and so on.
bool ShardsInOrder(const View& view) {
  for (std::size_t i = 0; i < view.shards.size(); ++i) {
    if (view.shards[i].shard != i) return false;
  }
  return true;
}

bool IsOlder(const View& view, const View& known) {
  if (view.term != known.term) return view.term < known.term;
  if (view.generation != known.generation) return view.generation < known.generation;
  return view.sequence < known.sequence || view.step < known.step;
}

}  // namespace

std::vector<std::string> StateNames(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd: return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kLars: return {"momentum_buffer"};
    case OptimizerKind::kAdagrad: return {"sum"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kLamb: return {"exp_avg", "exp_avg_sq"};
  }
  return {};
}

ReaderCore::ReaderCore(ReaderCoreOptions options)
    : options_(std::move(options)), silence_limit_(options_.silence_limit) {}

void ReaderCore::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  reader_.reset();
}

void ReaderCore::Refresh() {
  fresh_ = pulls_ = false;
  status_ = {};
  next_question_ = Instant{};
}

void ReaderCore::Ask(const Request& request) {
  Refresh();
  pulls_ = true;
  if (request_ == request) return;
  request_ = request;
  looked_back_ = false;
  reader_.reset();
  reading_.reset();
  nothing_newer_ = false;
}

void ReaderCore::Leave(Outbox* out) {
  if (!catalog_ || std::exchange(has_last_, true)) return;
  out->Send(options_.coordinator, capstan::Leave{{}, options_.nonce, "it has read enough"});
}

// ---- the coordinator -----------------------------------------------------------------------------------------------

// Sends Join until the job and its tensors are known. Then it sends Heartbeat, whose answer is short and which makes the
// job's end wait for this reader.
void ReaderCore::AskCoordinator(Instant now, Outbox* out) {
  next_question_ = now + kAskEvery;
  if (catalog_ && !has_last_) {
    Heartbeat beat;
    beat.nonce = options_.nonce;
    if (view_) beat.step = view_->step;
    out->Send(options_.coordinator, std::move(beat));
    return;
  }
  Join join;
  join.job = job_;
  join.worker = options_.name;
  join.nonce = options_.nonce;
  out->Send(options_.coordinator, std::move(join));
}

Status ReaderCore::TakeJob(const View& view) {
  if (!job_.IsNull() && view.job != job_) {
    return Refused(options_.coordinator_address + " runs another job now; connect a reader to that one");
  }
  if (!view.job_file.empty() && job_file_.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(view.job_file, "the coordinator's job file"));
    job_ = view.job;
    job_file_ = view.job_file;
    steps_ = config.steps();
    versions_ = ReadableIn(config.mode());
    state_names_ = StateNames(config.optimizer.kind);
    if (config.limits.stall > 0) {
      silence_limit_ = std::chrono::duration_cast<Instant>(std::chrono::duration<double>(config.limits.stall));
    }
  }
  if (!view.catalog.empty() && !catalog_) {
    CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(view.catalog, options_.block_elements));
    catalog_ = std::make_unique<Catalog>(std::move(catalog));
  }
  return {};
}

void ReaderCore::On(const View& view, Instant now, Outbox* out) {
  if (!ShardsInOrder(view)) return;
  const bool knew_tensors = catalog_ != nullptr;
  if (Status status = TakeJob(view); !status.ok()) return Fail(std::move(status));
  if (job_file_.empty() || (view_ && IsOlder(view, *view_))) return;
  if (!view_ || view_->readable != view.readable || view_->generation != view.generation) step_since_ = now;
  SeeEnd(view);
  view_ = view;
  fresh_ = true;
  // Sends a Heartbeat, from which on the coordinator counts this reader as a follower.
  if (catalog_ && !knew_tensors) AskCoordinator(now, out);
  if (reader_ && (view.generation != reader_->generation() || view.shards.size() != reader_->sources().size())) {
    reader_.reset();
  }
  Continue(now, out);
}

// Notes the job's last version when the job is done, and forgets it when the job does not continue as before: when a
// shard is lost, a new generation may take back the job's last steps, and a job may fail at its end.
void ReaderCore::SeeEnd(const View& view) {
  const bool as_before = view.phase == JobPhase::kRunning && view_ && view.generation == view_->generation;
  if (view.phase == JobPhase::kDone) {
    last_ = view.readable;
  } else if (!as_before) {
    last_.reset();
  }
}

// ---- a reading -----------------------------------------------------------------------------------------------------

// Returns the version to request; nullopt: there is none yet.
std::optional<Step> ReaderCore::NextVersion() const {
  const bool done = view_->phase == JobPhase::kDone;
  if ((!done && view_->phase != JobPhase::kRunning) || view_->shards.empty() || !catalog_) return {};
  const Step newest = view_->readable;
  if (!request_->newer_than || done || newest > *request_->newer_than) return newest;
  // The version after the one that all shards have: a pull of it waits at the shards.
  if (versions_.next_can_be_awaited && newest == *request_->newer_than) return newest.Next();
  return {};
}

bool ReaderCore::AnswerNothingNewer(Outbox* out) {
  if (!pulls_ || answered() || !status_.ok()) return false;
  if (!last_ || !request_->newer_than || *last_ > *request_->newer_than) return false;
  nothing_newer_ = true;
  reader_.reset();
  request_.reset();
  Leave(out);
  return true;
}

void ReaderCore::Continue(Instant now, Outbox* out) {
  if (!pulls_ || answered() || !status_.ok()) return;
  if (view_->phase == JobPhase::kFailed) return Fail(Refused("the job failed: " + view_->message));
  if (AnswerNothingNewer(out)) return;
  // If the current step is slow, request its version instead of waiting for a later one. Only once per call, because
  // reading may take longer than the rest of the step.
  const bool newer = !request_->newer_than || view_->readable > *request_->newer_than;
  const bool slow = reader_ && reader_->version().value > view_->readable.value && now - step_since_ >= kSlowStep;
  const bool look_back = slow && newer && !std::exchange(looked_back_, true);
  if (look_back) steps_past_ = 1;
  if (reader_ && !look_back) return;
  if (const std::optional<Step> next = NextVersion()) return Begin(*next, now, out);
  // Without global steps no pull can wait for a version: ask the coordinator again soon.
  if (view_->phase == JobPhase::kRunning) next_question_ = std::min(next_question_, now + kAskSoonest);
}

void ReaderCore::Begin(Step step, Instant now, Outbox* out) {
  const auto arrays = 1 + static_cast<std::uint32_t>(request_->optimizer_state ? state_names_.size() : 0);
  if (!MakeRoom(arrays)) {
    return Fail({Code::kBusy, "there is no memory for " + std::to_string(arrays) + " arrays of " +
                                  std::to_string(catalog_->element_count()) + " numbers"});
  }
  reads_last_ = view_->phase == JobPhase::kDone;
  if (Status status = ConnectShards(); !status.ok()) return Fail(std::move(status));
  const auto keep = [this](const Block& block, std::uint32_t array, const Slice& values) -> Status {
    std::memcpy(arrays_[array].get() + block.flat_offset, values.data, values.size);
    return {};
  };
  reader_ =
      std::make_unique<WeightsReader>(catalog_.get(), shards_, view_->generation, Version{step.value}, keep, arrays);
  reader_->Tick(now, out);
}

bool ReaderCore::MakeRoom(std::uint32_t arrays) {
  // reading_ is empty here, so arrays of an older version are not shown.
  if (arrays_.size() > arrays) arrays_.resize(arrays);
  while (arrays_.size() < arrays) {
    Array array(new (std::nothrow) float[catalog_->element_count()]);
    if (!array) return false;
    arrays_.push_back(std::move(array));
  }
  return true;
}

Status ReaderCore::ConnectShards() {
  for (const WeightsReader::Source& old : shards_) {
    const bool stays = std::any_of(view_->shards.begin(), view_->shards.end(),
                                   [&](const ShardAddress& now) { return now.endpoint == old.address.endpoint; });
    if (!stays) options_.disconnect(old.peer);
  }
  shards_.clear();
  for (const ShardAddress& address : view_->shards) {
    shards_.push_back({options_.connect(address.endpoint), address});
    if (shards_.back().peer.value != 0) continue;
    return Unreachable("shard " + std::to_string(address.shard) + " at \"" + address.endpoint +
                       "\" cannot be connected to; look at cluster.advertise and the limit of open files (ulimit -n)");
  }
  return {};
}

void ReaderCore::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (from == options_.coordinator) {
    coordinator_heard_ = now;
    if (const auto* view = message.header.As<View>()) On(*view, now, out);
    const auto* error = message.header.As<Error>();
    if (error != nullptr && error->code == Code::kRefused) Fail(Refused(error->message));
    return;
  }
  if (!pulls_ || !reader_ || !reader_->Handle(from, message, now, out)) return;
  if (!reader_->status().ok()) return Fail(reader_->status());
  if (reader_->done()) {
    const bool last = reads_last_ || (versions_.last_is_marked && reader_->stop());
    reading_ = Reading{Step{reader_->version().value}, reader_->generation(), last, reader_->updates()};
    reader_.reset();
    request_.reset();
    steps_past_ = std::max<std::uint64_t>(1, steps_past_ / 2);
    if (last) {
      last_ = reading_->step;
      Leave(out);
    }
  } else if (reader_->outdated() || (!versions_.pass_with_steps && reader_->passed())) {
    reader_.reset();
    next_question_ = std::min(next_question_, now + kAskSoonest);
  } else if (reader_->passed()) {
    const std::uint64_t step = reader_->passed()->value;
    Begin(Step{std::min(step + steps_past_, std::max(step, steps_))}, now, out);  // the last version can always be read
    steps_past_ = std::min(2 * steps_past_, kStepsPastMax);
  }
}

// ---- time ----------------------------------------------------------------------------------------------------------

void ReaderCore::Tick(Instant now, Outbox* out) {
  // Between two calls no messages are read, so that time does not count as the coordinator's silence.
  if (!coordinator_heard_ || now - last_tick_ > kReaderStoodStill) coordinator_heard_ = now;
  last_tick_ = now;
  if (AnswerNothingNewer(out)) return;  // without asking: the coordinator may have ended
  if (now - *coordinator_heard_ >= silence_limit_) {
    coordinator_heard_ = now;  // the next call gets the full limit again
    const bool over = view_ && view_->phase == JobPhase::kDone;
    return Fail(Unreachable("no answer from the coordinator at " + options_.coordinator_address + " for " +
                            Seconds(silence_limit_) +
                            (over ? "; the job was done, final.safetensors in its run directory has its weights"
                                  : "; is capstan-server --coordinator running there, and is the address right?")));
  }
  if (now >= next_question_) AskCoordinator(now, out);
  if (pulls_ && reader_) reader_->Tick(now, out);
}

std::string ReaderCore::WaitingFor() const {
  if (!view_) return "the coordinator at " + options_.coordinator_address + " (no job file yet)";
  if (coordinator_heard_ && last_tick_ - *coordinator_heard_ > 2 * kAskEvery) {
    return "the coordinator at " + options_.coordinator_address + " (silent)";
  }
  if (!pulls_) return "the coordinator at " + options_.coordinator_address + " (to answer)";
  if (!catalog_) return "a worker to declare the job's tensors";
  const bool serves = view_->phase == JobPhase::kRunning || view_->phase == JobPhase::kDone;
  if (!serves || view_->shards.empty()) return "the job to start";
  if (reader_ && reader_->version().value <= view_->step.value) return reader_->WaitingFor();
  return "the job to end step " + std::to_string(view_->step.value);
}

}  // namespace capstan::client
