#include "worker/client/reader_core.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"

namespace capstan::client {

namespace {

constexpr Instant kSlowStep = std::chrono::seconds(2);
constexpr std::uint64_t kStepsPastMax = 32;  // shards park pulls of versions up to twice as far away

std::string Seconds(Instant time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

ReaderCore::ReaderCore(ReaderCoreOptions options)
    : options_(std::move(options)),
      job_(options_.coordinator_address, options_.block_elements),
      shards_(options_.connect, options_.disconnect) {}

void ReaderCore::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  reader_.reset();
}

void ReaderCore::Refresh() {
  fresh_ = pulls_ = false;
  status_ = {};
  coordinator_.AskNow();
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
  if (job_.catalog() == nullptr || std::exchange(has_last_, true)) return;
  out->Send(options_.coordinator, capstan::Leave{{}, options_.nonce, "it has read enough"});
}

// ---- the coordinator -----------------------------------------------------------------------------------------------

// Sends Join until the job and its tensors are known, and again after Leave. In between it sends Heartbeat, which has a
// short answer and makes the job's end wait for this reader.
void ReaderCore::AskCoordinator(Instant now, Outbox* out) {
  coordinator_.Asked(now);
  if (job_.catalog() != nullptr && !has_last_) {
    Heartbeat beat;
    beat.nonce = options_.nonce;
    if (job_.view() != nullptr) beat.step = job_.view()->step;
    out->Send(options_.coordinator, std::move(beat));
    return;
  }
  Join join;
  join.job = job_.id();
  join.worker = options_.name;
  join.nonce = options_.nonce;
  out->Send(options_.coordinator, std::move(join));
}

void ReaderCore::On(const View& view, Instant now, Outbox* out) {
  const bool knew_tensors = job_.catalog() != nullptr;
  const Result<bool> is_new = job_.Take(view, now);
  if (!is_new.ok()) return Fail(is_new.status());
  if (!*is_new) return;
  fresh_ = true;
  // The tensors have become known: sends the first Heartbeat, after which the coordinator counts this reader.
  if (job_.catalog() != nullptr && !knew_tensors) AskCoordinator(now, out);
  if (reader_ && (view.generation != reader_->generation() || view.shards.size() != reader_->sources().size())) {
    reader_.reset();
  }
  Continue(now, out);
}

// ---- a reading -----------------------------------------------------------------------------------------------------

// Returns the version to request; nullopt: there is none yet.
std::optional<Step> ReaderCore::NextVersion() const {
  if ((!job_.done() && !job_.running()) || view().shards.empty() || job_.catalog() == nullptr) return {};
  const Step newest = view().readable;
  if (!request_->newer_than || job_.done() || newest > *request_->newer_than) return newest;
  // A pull of the next version waits at the shards until the version exists.
  if (job_.versions().next_can_be_awaited && newest == *request_->newer_than) return newest.Next();
  return {};
}

bool ReaderCore::AnswerNothingNewer(Outbox* out) {
  if (!pulls_ || answered() || !status_.ok()) return false;
  if (!job_.last() || !request_->newer_than || *job_.last() > *request_->newer_than) return false;
  nothing_newer_ = true;
  reader_.reset();
  request_.reset();
  Leave(out);
  return true;
}

void ReaderCore::Continue(Instant now, Outbox* out) {
  if (!pulls_ || answered() || !status_.ok()) return;
  if (view().phase == JobPhase::kFailed)
    return Fail(Refused("the job failed: " + Excerpt(view().message, kLongExcerptBytesMax)));
  if (AnswerNothingNewer(out)) return;
  // If the current step is slow, request its version instead of waiting for a later one. Only once per call, because
  // reading may take longer than the rest of the step.
  const bool newer = !request_->newer_than || view().readable > *request_->newer_than;
  const bool slow = reader_ && reader_->version().value > view().readable.value && now - job_.step_since() >= kSlowStep;
  const bool look_back = slow && newer && !std::exchange(looked_back_, true);
  if (look_back) steps_past_ = 1;
  if (reader_ && !look_back) return;
  if (const std::optional<Step> next = NextVersion()) return Begin(*next, now, out);
  // Where no pull can wait for a version, the coordinator's next view has to report it.
  if (job_.running()) coordinator_.AskSoon(now);
}

void ReaderCore::Begin(Step step, Instant now, Outbox* out) {
  const auto arrays = 1 + static_cast<std::uint32_t>(request_->optimizer_state ? job_.state_names().size() : 0);
  const std::uint64_t elements = job_.catalog()->element_count();
  // reading_ is empty here, so arrays of an older version are not shown.
  if (!arrays_.MakeRoom(arrays, elements)) {
    return Fail({Code::kBusy, "there is no memory for " + std::to_string(arrays) + " arrays of " +
                                  std::to_string(elements) + " numbers"});
  }
  reads_last_ = job_.done();
  if (Status status = shards_.Connect(view().shards); !status.ok()) return Fail(std::move(status));
  const auto keep = [this](const Block& block, std::uint32_t array, const Slice& values) -> Status {
    arrays_.Write(block, array, values);
    return {};
  };
  reader_ = std::make_unique<WeightsReader>(job_.catalog(), shards_.all(), view().generation, Version{step.value}, keep,
                                            arrays);
  reader_->Tick(now, out);
}

void ReaderCore::Finish(Outbox* out) {
  const bool last = reads_last_ || (job_.versions().last_is_marked && reader_->stop());
  reading_ = Reading{Step{reader_->version().value}, reader_->generation(), last, reader_->updates(),
                     reader_->gradient_norm()};
  reader_.reset();
  request_.reset();
  steps_past_ = std::max<std::uint64_t>(1, steps_past_ / 2);
  if (!last) return;
  job_.NoteLast(reading_->step);
  Leave(out);
}

void ReaderCore::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (from == options_.coordinator) {
    coordinator_.NoteMessage(now);
    if (const auto* view = message.header.As<View>()) On(*view, now, out);
    const auto* error = message.header.As<Error>();
    if (error != nullptr && error->code == Code::kRefused) Fail(Refused(Excerpt(error->message, kLongExcerptBytesMax)));
    return;
  }
  if (!pulls_ || !reader_ || !reader_->Handle(from, message, now, out)) return;
  if (!reader_->status().ok()) return Fail(reader_->status());
  if (reader_->done()) {
    Finish(out);
  } else if (reader_->outdated() || (!job_.versions().pass_with_steps && reader_->passed())) {
    reader_.reset();
    coordinator_.AskSoon(now);
  } else if (reader_->passed()) {
    const std::uint64_t step = reader_->passed()->value;
    Begin(Step{std::min(step + steps_past_, std::max(step, job_.steps()))}, now, out);  // the last can always be read
    steps_past_ = std::min(2 * steps_past_, kStepsPastMax);
  }
}

// ---- time ----------------------------------------------------------------------------------------------------------

void ReaderCore::Tick(Instant now, Outbox* out) {
  coordinator_.Tick(now);
  if (AnswerNothingNewer(out)) return;  // without asking: the coordinator may have ended
  const Instant limit = job_.silence_limit().value_or(options_.silence_limit);
  if (coordinator_.TakeSilence(limit, now)) {
    return Fail(
        Unreachable("no answer from the coordinator at " + options_.coordinator_address + " for " + Seconds(limit) +
                    (job_.done() ? "; the job was done, final.safetensors in its run directory has its weights"
                                 : "; is capstan-server --coordinator running there, and is the address right?")));
  }
  if (coordinator_.question_is_due(now)) AskCoordinator(now, out);
  if (pulls_ && reader_) reader_->Tick(now, out);
}

std::string ReaderCore::WaitingFor() const {
  const std::string coordinator = "the coordinator at " + options_.coordinator_address;
  if (job_.view() == nullptr) return coordinator + " (no job file yet)";
  if (coordinator_.silent()) return coordinator + " (silent)";
  if (!pulls_) return coordinator + " (to answer)";
  if (job_.catalog() == nullptr) return "a worker to declare the job's tensors";
  const bool serves = job_.running() || job_.done();
  if (!serves || view().shards.empty()) return "the job to start";
  if (reader_ && reader_->version().value <= view().step.value) return reader_->WaitingFor();
  return "the job to end step " + std::to_string(view().step.value);
}

}  // namespace capstan::client
