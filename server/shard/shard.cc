#include "server/shard/shard.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "common/base/utf8.h"
#include "common/data/metrics_check.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "server/shard/check_message.h"
#include "server/shard/check_numbers.h"
#include "server/shard/check_sender.h"
#include "server/shard/reset_plan.h"
#include "server/shard/step_clipping.h"

namespace capstan::server {

namespace {

constexpr Instant kHelloAfterSilence = std::chrono::seconds(2);

template <class Order>
CoordinatorNumbers NumbersOf(const Order& order) {
  if constexpr (std::is_same_v<Order, Reset>) return {order.term, order.generation};
  return {order.term, {}};
}

Committed MakeCommitted(const ShardContext& shard, Step step) {
  return {shard.options.shard, shard.options.incarnation, shard.generation, step};
}

}  // namespace

Shard::Shard(ShardOptions options, std::shared_ptr<monitoring::ShardMetrics> metrics)
    : context_(std::move(options), std::move(metrics)),
      journal_(context_.durable() ? std::make_unique<PushJournal>(context_) : nullptr),
      engine_(CreateStepEngine(context_, &context_.served, &acknowledgements_, journal_.get())),
      pulls_(context_, *engine_),
      snapshots_(context_),
      identity_(context_.options.identity),
      hello_backoff_(context_.options.shard) {
  CAPSTAN_CHECK(context_.options.shard < context_.options.shard_count);
  context_.metrics->incarnation.Set(static_cast<double>(context_.options.incarnation.value));
}

void Shard::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (from == context_.options.coordinator) {
    HandleCoordinator(message, now, out);
  } else {
    HandleWorker(from, message, now, out);
  }
}

bool Shard::Flush(Instant now, Outbox* out) {
  if (journal_) journal_->Append(now);
  if (engine_->PullsMayBeReady() && gate_.is_open()) pulls_.AnswerReady(now, out);
  pulls_.SendUnsent(out);
  engine_->Acknowledge(out);
  return pulls_.answers_wait();
}

void Shard::Tick(Instant now, Outbox* out) {
  if (now - last_coordinator_ >= kHelloAfterSilence && hello_backoff_.Due(now)) {
    hello_backoff_.Sent(now);
    out->Send(context_.options.coordinator, MakeHello());
  }
  identity_.Tick(now, &disk_work_);
  if (load_) load_->Tick(now, out);
  if (load_ && journal_) journal_->Tick(now);
  snapshots_.Tick(now, out);
  if (serving()) engine_->Tick(now, out);
  context_.metrics->staging_bytes.Set(engine_->staged_bytes());
  if (const BlockStore* store = context_.store.get()) {
    context_.metrics->pool_used_bytes.Set(store->pool_used_bytes());
    context_.metrics->pool_free_bytes.Set(store->pool_bytes() - store->pool_used_bytes());
  }
}

Hello Shard::MakeHello() const {
  const ShardOptions& options = context_.options;
  Hello hello;
  hello.shard = options.shard;
  hello.incarnation = options.incarnation;
  hello.term = term();
  hello.generation = generation();
  hello.job = identity_.value().job;
  hello.serving = serving();
  hello.version = serving() ? version() : Version{0};
  hello.parts = snapshots_.parts();
  hello.newest_retained = identity_.value().newest_retained;
  if (last_commit() != nullptr) hello.last_commit = *last_commit();
  engine_->Describe(&hello);
  hello.config_hash = options.job.config_hash;
  hello.endpoint = options.endpoint;
  hello.metrics = options.metrics;
  hello.sessions = context_.sessions.sequence(term());
  hello.busy_us = options.busy_us();
  return hello;
}

// ---- the coordinator's messages ------------------------------------------------------------------------------------

void Shard::HandleCoordinator(const Message& message, Instant now, Outbox* out) {
  last_coordinator_ = now;
  message.header.VisitAs<Ping, Reset, Commit, Redo, ClockUpdate, Pin, RetainedSnapshots, LiveSessions, Shutdown>(
      [&](const auto& body) {
        if (body.term < context_.term) return;  // from a coordinator that has been replaced
        if (const Status status = CheckNumbers(NumbersOf(body), {term(), generation()}); !status.ok()) {
          if (!std::exchange(logged_impossible_, true)) {
            out->Log(Severity::kWarning, context_.name() + " ignores a coordinator: " + status.message());
          }
          return;
        }
        context_.term = body.term;
        context_.metrics->term.Set(static_cast<double>(body.term.value));
        if constexpr (std::is_same_v<std::decay_t<decltype(body)>, LiveSessions>) {
          context_.sessions.Take(body);
        } else {
          On(body, now, out);
        }
      });
  const auto* error = message.header.As<Error>();
  if (error == nullptr) return;
  // A refusal of an earlier incarnation of this shard does not count. Incarnation 0: the refusal names none.
  const bool mine = error->incarnation.value == 0 || error->incarnation == context_.options.incarnation;
  if (error->code == Code::kRefused && mine) {
    refusal_ = Refused("the coordinator refuses this shard: " + Excerpt(error->message, kLongExcerptBytesMax));
    out->Log(Severity::kError, refusal_.message());
    shut_down_ = true;
  }
}

void Shard::On(const Ping&, Instant, Outbox* out) { out->Send(context_.options.coordinator, MakeHello()); }

void Shard::On(const Shutdown& shutdown, Instant, Outbox*) {
  if (shutdown.generation >= generation()) shut_down_ = true;
}

void Shard::On(const Commit& commit, Instant now, Outbox* out) {
  if (!serving() || commit.generation != generation()) return;
  const StepEngine::CommitOutcome outcome = engine_->Handle(commit);
  if (outcome == StepEngine::CommitOutcome::kIgnored) return;
  if (outcome == StepEngine::CommitOutcome::kPublished) {
    pulls_.BeginStep();
    if (context_.served.parameters.snapshot && engine_->CanPin(version())) {
      PinSnapshot(context_.NameSnapshot(version()), now, out);
    }
    if (gate_.is_open()) pulls_.AnswerReady(now, out);
    engine_->ReportWhenComplete(now, out);  // a shard without blocks and home slots waits for nothing
  }
  // The job ends when every shard has answered, so the last version must be here by then.
  const bool is_last = context_.served.parameters.stop && commit.step.Next() == context_.step();
  if (is_last && engine_->awaits_uploads()) return;
  out->Send(context_.options.coordinator, MakeCommitted(context_, commit.step));
}

void Shard::On(const Redo& redo, Instant now, Outbox* out) {
  if (!serving() || redo.generation != generation()) return;
  const StepEngine::RedoOutcome outcome = engine_->Handle(redo, now, out);
  if (outcome == StepEngine::RedoOutcome::kIgnored) return;
  if (outcome == StepEngine::RedoOutcome::kRedone) pulls_.OnRedone();
  pulls_.SendSpeculative(out);
}

void Shard::On(const ClockUpdate& update, Instant, Outbox*) {
  if (serving() && update.generation == generation()) engine_->Handle(update);
}

// ---- messages of workers and of other shards -----------------------------------------------------------------------

void Shard::HandleWorker(PeerId from, const Message& message, Instant now, Outbox* out) {
  const Header& header = message.header;
  const bool of_worker = header.VisitAs<Push, EndSlot, CoverageQuery, Pull, UploadBlock>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if (!IsReaders(body) && !CheckSession(context_, from, body.session, out)) return;
    if (!CheckFence(context_, {from, body.session, body.generation, body.incarnation, serving()}, out)) return;
    if constexpr (std::is_same_v<Body, Push> || std::is_same_v<Body, EndSlot>) {
      if (!gate_.is_open()) return context_.Refuse(from, Code::kBusy, "the first weights are not kept yet", out);
    }
    On(from, body, message.payload, now, out);
  });
  if (of_worker || header.Is<Error>()) return;
  if (const auto* fetch = header.As<Fetch>()) {
    // A Fetch with another key is not answered. A shard that has the next key already will ask again.
    if (fetch_key_ != 0 && fetch->key == fetch_key_) snapshots_.Handle(from, *fetch, &disk_work_, out);
    return;
  }
  const auto* fetched = header.As<Fetched>();
  if (fetched == nullptr) {
    return context_.RefuseStranger(from, Code::kInvalid, "a shard does not take this message from a worker", out);
  }
  if (load_) load_->Handle(from, *fetched, message.payload, now, out);
  FinishReset(now, out);
}

void Shard::On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out) {
  if (!engine_->takes_pushes()) {
    return context_.Reject(from, Invalid("this job's workers reduce gradients themselves, and its shards take none"),
                           push.block, out);
  }
  CAPSTAN_CHECK(payload.owner || payload.empty() || engine_->TakesLent(push));
  const Status status = CheckPush(context_, push, payload);
  if (!status.ok()) return context_.Reject(from, status, push.block, out);
  const std::optional<std::size_t> prepared = engine_->Handle(from, push, payload, now, out);
  if (prepared) pulls_.OnPrepared(*prepared, out);
}

void Shard::On(PeerId from, const EndSlot& end, const Slice&, Instant now, Outbox* out) {
  const SlotIndex slot = end.report.slot;
  const std::string name = "slot " + std::to_string(slot);
  if (slot >= context_.slot_count || !context_.IsHome(slot)) {
    return context_.Refuse(from, Code::kInvalid, name + " does not end on " + context_.name(), out);
  }
  if (const Status status = CheckMetrics(end.report.metrics); !status.ok()) {
    return context_.Refuse(from, Code::kInvalid, name + ": " + status.message(), out);
  }
  if (const Status status = StepClipping::Check(end, context_.options.job.mode); !status.ok()) {
    return context_.Refuse(from, Code::kInvalid, status.message(), out);
  }
  engine_->Handle(from, end, now, out);
}

void Shard::On(PeerId from, const CoverageQuery& query, const Slice&, Instant, Outbox* out) {
  if (query.question == 0) {
    if (engine_->Handle(from, query, out)) pulls_.Forget(from);
    return;
  }
  // Messages of one worker arrive in order: what was sent before this question has arrived by now, or is lost.
  Staged& ack = acknowledgements_.For(from, query.step);
  ack.answers = std::max(ack.answers, query.question);
  ack.pull_waits = pulls_.Waits(from);
  for (const StagedNode& entry : query.nodes) {
    const auto index = context_.index_of.find(entry.block);
    if (index == context_.index_of.end() || entry.node.begin >= context_.slot_count) continue;
    // A push that waits for the log is not missing: it is acknowledged once it is logged.
    if (journal_ && journal_->Has(SequenceOf(query.step), entry.block, entry.node.begin)) continue;
    (engine_->Holds(index->second, query.step, entry.node) ? ack.nodes : ack.missing).push_back(entry);
  }
}

void Shard::On(PeerId from, const Pull& pull, const Slice&, Instant now, Outbox* out) {
  if (const PullFault fault = CheckPull(context_, pull); !fault.status.ok()) {
    return context_.Refuse(from, fault.status.code(), fault.status.message(), out, fault.block);
  }
  pulls_.Take(from, pull, gate_.is_open(), now, out);
}

void Shard::On(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out) {
  const LiveSession& sender = *context_.sessions.Find(upload.session);
  const bool is_its = engine_->takes_pushes() ? sender.founder : !sender.slots.empty();
  if (!is_its) {  // perhaps not yet, or no longer
    return context_.Refuse(from, Code::kBusy, "block " + std::to_string(upload.block) + " comes from another worker",
                           out, upload.block);
  }
  const bool is_first = engine_->takes_pushes() && (upload.step.value == 0 || !engine_->takes_uploads());
  if (!is_first) {
    const bool was_here = engine_->HasBlocksOf(version(), 0);
    engine_->Handle(from, upload, payload, now, out);
    if (was_here || !engine_->HasBlocksOf(version(), 0)) return;
    // The published version is here now, for which others have waited.
    const StepParameters& parameters = context_.served.parameters;
    if (parameters.snapshot) PinSnapshot(context_.NameSnapshot(version()), now, out);
    pulls_.AnswerReady(now, out);
    if (parameters.stop && last_commit() != nullptr)
      out->Send(context_.options.coordinator, MakeCommitted(context_, last_commit()->step));
    engine_->ReportWhenComplete(now, out);
    return;
  }
  const Status status = gate_.Check(context_, upload, payload);
  if (!status.ok()) return context_.Reject(from, status, upload.block, out);
  acknowledgements_.AddUpload(from, Step{0}, upload.block);
  if (gate_.Take(context_, upload, payload)) PinInitialWeights(now, out);
}

// ---- how a generation begins ---------------------------------------------------------------------------------------

void Shard::On(const Reset& reset, Instant now, Outbox* out) {
  const ShardOptions& options = context_.options;
  if (reset.incarnation != options.incarnation || reset.generation < generation()) return;
  fetch_key_ = reset.fetch_key;
  if (reset.generation == generation() && load_) {  // under way; a shard that has the blocks may have a new address
    load_->Redirect(reset);
    return;
  }
  if (reset.generation == generation() && serving()) {
    if (!going_on_) out->Send(options.coordinator, ResetDone{options.shard, options.incarnation, generation()});
    return;
  }
  const bool can_go_on = journal_ || engine_->CanGoOn();
  if (can_go_on && serving() && FirstGeneration(reset.timeline) < reset.generation && reset.timeline == timeline())
    return GoOn(reset);
  if (Status status = Install(reset, now, out); !status.ok()) {  // nothing was touched: serving or loading continues
    out->Send(options.coordinator, ResetBad{options.shard, options.incarnation, reset.generation, status.message()});
    return;
  }
  FinishReset(now, out);
}

Status Shard::Install(const Reset& reset, Instant now, Outbox* out) {
  CAPSTAN_ASSIGN_OR_RETURN(ResetPlan plan, PlanReset(context_, reset, out));
  const auto begin = reset.snapshot.IsNone() ? BlockStore::Begin::kVersion0 : BlockStore::Begin::kToBeLoaded;
  load_.reset();
  context_.Begin(reset, std::move(plan.catalog), plan.blocks, begin);
  snapshots_.Abandon();
  gate_ = InitialWeightsGate(*context_.catalog, plan.blocks, begin);
  pulls_.Reset();
  acknowledgements_.Reset();
  engine_->Reset();
  if (journal_) journal_->Reset(now);
  identity_.Begin(context_, reset.job, &disk_work_);
  going_on_ = false;
  blocks_loaded_ = false;
  load_ = MakeLoad(context_, reset, snapshots_.parts());
  if (auto work = load_->TakeWork()) disk_work_.emplace_back(std::move(*work));
  return {};
}

// Goes on with the served weights in a new generation, because another shard was lost or the workers form another
// group. The step under way starts again, and workers repeat their requests of the previous generation.
void Shard::GoOn(const Reset& reset) {
  context_.generation = reset.generation;
  going_on_ = true;
  identity_.Begin(context_, reset.job, &disk_work_);
  if (journal_ || !gate_.is_open())
    snapshots_.Abandon();                      // otherwise the coordinator still wants what is being written
  if (!reset.snapshot.IsNone()) gate_.Open();  // RetainedSnapshots may have been lost
  pulls_.Reset();
  acknowledgements_.Reset();
  if (journal_) journal_->ForgetSenders();
  engine_->Restart();
  context_.metrics->generation.Set(static_cast<double>(generation().value));
}

void Shard::FinishReset(Instant now, Outbox* out) {
  if (going_on_ && identity_.is_stored()) {
    going_on_ = false;
    Resume(now, out);
  }
  if (!load_) return;
  if (!load_->status().ok()) return FailReset(load_->status().message(), out);
  if (!load_->done()) return;
  if (!std::exchange(blocks_loaded_, true)) {
    engine_->Load(load_->entries(), load_->headers());
    const Status status = journal_ ? journal_->BeginReplay(load_->reset().snapshot, load_->headers()) : Status();
    if (!status.ok()) return FailReset(status.message(), out);
  }
  if (!identity_.is_stored() || (journal_ && !journal_->is_ready())) return;
  load_.reset();
  context_.metrics->parameter_bytes.Set(context_.store->parameter_bytes());
  context_.metrics->optimizer_bytes.Set(context_.store->optimizer_bytes());
  context_.metrics->generation.Set(static_cast<double>(generation().value));
  context_.metrics->version.Set(static_cast<double>(version().value));
  Resume(now, out);
}

void Shard::Resume(Instant now, Outbox* out) {
  out->Send(context_.options.coordinator,
            ResetDone{context_.options.shard, context_.options.incarnation, generation()});
  engine_->ReportWhenComplete(now, out);  // if no slot ends here, nothing else triggers the report
}

void Shard::FailReset(const std::string& reason, Outbox* out) {
  out->Send(context_.options.coordinator,
            ResetBad{context_.options.shard, context_.options.incarnation, generation(), reason});
  load_.reset();
  context_.store.reset();
}

// ---- snapshots -----------------------------------------------------------------------------------------------------

void Shard::On(const Pin& pin, Instant now, Outbox* out) {
  if (!serving() || pin.generation != generation() || !engine_->CanPin(pin.version)) return;
  const SnapshotId id = context_.NameSnapshot(pin.version);
  if (gate_.is_open() || snapshots_.HasBegun(id)) return PinSnapshot(id, now, out);
  gate_.RequestSnapshot();
  PinInitialWeights(now, out);
}

// Has a requested snapshot of version 0 written, if all first weights are here and no other snapshot is being written.
void Shard::PinInitialWeights(Instant now, Outbox* out) {
  if (snapshots_.is_writing() || !gate_.TakeSnapshotRequest()) return;
  PinSnapshot(context_.NameSnapshot(version()), now, out);
}

void Shard::PinSnapshot(SnapshotId id, Instant now, Outbox* out) {
  if (!snapshots_.Pin(id, now, out)) return;
  SnapshotImage image = snapshots_.MakeImage(id, identity_.value().job);
  engine_->Describe(&image.header);
  if (journal_) journal_->Mark(&image.header);
  snapshots_.Write(std::move(image), &disk_work_);
}

void Shard::On(const RetainedSnapshots& message, Instant now, Outbox* out) {
  if (message.generation != generation()) return;
  snapshots_.Settle(message);
  if (const Status status = snapshots_.Check(message, identity_.value().newest_retained); !status.ok()) {
    return out->Log(Severity::kWarning, context_.name() + " deletes no snapshots: " + status.message());
  }
  if (!message.ids.empty() && !gate_.is_open()) {
    gate_.Open();
    if (gate_.is_open()) pulls_.AnswerReady(now, out);
  }
  if (journal_) journal_->TrimTo(message.ids);
  const auto newest =
      std::find_if(message.ids.rbegin(), message.ids.rend(), [this](SnapshotId id) { return snapshots_.Has(id); });
  if (newest != message.ids.rend()) identity_.RaiseNewestRetained(*newest, &disk_work_);
  snapshots_.Handle(message, identity_.value().newest_retained, &disk_work_);
}

// ---- results of the disk and of the log ----------------------------------------------------------------------------

void Shard::Handle(DiskResult result, Instant now, Outbox* out) {
  if (const auto* remembered = std::get_if<IdentityPersisted>(&result)) {
    if (identity_.Handle(*remembered, context_, now, out)) FinishReset(now, out);
  } else if (auto* loaded = std::get_if<SnapshotLoaded>(&result)) {
    if (load_) load_->Handle(std::move(*loaded), now, out);
    FinishReset(now, out);
  } else if (auto* written = std::get_if<SnapshotWritten>(&result)) {
    if (!snapshots_.Handle(std::move(*written), now, out)) PinInitialWeights(now, out);
  } else if (auto* read = std::get_if<PeerRead>(&result)) {
    snapshots_.Handle(std::move(*read), out);
  } else {
    snapshots_.Handle(std::get<PartsRemoved>(result), out);
  }
}

void Shard::Handle(LogResult result, Instant now, Outbox* out) {
  if (!journal_) return;  // it requested nothing
  if (const auto* begun = std::get_if<LogBegun>(&result)) {
    if (journal_->Handle(*begun, out)) FinishReset(now, out);
  } else if (const auto* appended = std::get_if<LogAppended>(&result)) {
    engine_->Apply(journal_->Handle(*appended, now, out));
  } else if (auto* read = std::get_if<LogRead>(&result)) {
    if (!load_ || !blocks_loaded_ || !journal_->Expects(*read)) return;
    Status status = std::move(read->status);
    for (const PushLogRecord& record : read->piece.records) {
      if (status.ok()) status = engine_->Replay(record);
    }
    if (!status.ok()) return FailReset(status.message(), out);
    if (journal_->Replayed(read->piece, out)) FinishReset(now, out);
  } else {
    journal_->Handle(std::get<LogTrimmed>(result), out);
  }
}

bool TakesLent(const Shard& shard, const Header& header) {
  const auto* const push = header.As<Push>();
  return push != nullptr && shard.serving() && shard.engine().takes_pushes() && shard.engine().TakesLent(*push);
}

}  // namespace capstan::server
