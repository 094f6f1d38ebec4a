#include "server/shard/shard.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/data/metrics_check.h"
#include "common/wire/messages/assign.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "common/wire/staged_runs.h"
#include "server/shard/admission.h"
#include "server/shard/parked_pull.h"
#include "server/shard/shard_memory.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

namespace {

constexpr Instant kHelloAfterSilence = std::chrono::seconds(2);
constexpr Instant kProgressEvery = std::chrono::milliseconds(20);

template <class T, class... Ts>
constexpr bool kIsOneOf = (std::is_same_v<T, Ts> || ...);

}  // namespace

Shard::Shard(ShardOptions options, std::shared_ptr<monitoring::ShardMetrics> metrics)
    : context_(std::move(options), std::move(metrics)),
      identity_(context_.options.life),
      snapshots_(context_),
      hello_backoff_(context_.options.shard),
      prepared_backoff_(context_.options.shard) {
  if (context_.durable()) journal_.emplace(context_);
  CAPSTAN_CHECK(context_.options.shard < context_.options.shard_count);
  context_.metrics->incarnation.Set(static_cast<double>(context_.options.incarnation.value));
}

Shard::~Shard() = default;

void Shard::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (from == context_.options.coordinator) {
    HandleCoordinator(message, now, out);
  } else {
    HandleWorker(from, message, now, out);
  }
}

// ---- the coordinator's messages ------------------------------------------------------------------------------------

void Shard::HandleCoordinator(const Message& message, Instant now, Outbox* out) {
  last_coordinator_ = now;
  message.header.VisitAs<Ping, Reset, Commit, Redo, Rates, Pin, SnapshotsKept, Shutdown>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if (body.term < context_.term) return;  // from a coordinator that has been replaced
    context_.term = body.term;
    context_.metrics->term.Set(static_cast<double>(context_.term.value));
    if constexpr (std::is_same_v<Body, Ping>) {
      On(body, out);
    } else if constexpr (kIsOneOf<Body, Rates, Shutdown>) {
      On(body);
    } else {
      On(body, now, out);
    }
  });
  const auto* error = message.header.As<Error>();
  if (error == nullptr) return;
  // A message to an earlier incarnation does not concern this one.
  const bool mine = error->incarnation.value == 0 || error->incarnation == context_.options.incarnation;
  if (error->code == Code::kRefused && mine) {
    refusal_ = Refused("the coordinator refuses this shard: " + error->message);
    out->Say(Severity::kError, refusal_.message());
    shut_down_ = true;
  }
}

void Shard::On(const Ping&, Outbox* out) { out->Send(context_.options.coordinator, MakeHello()); }

void Shard::On(const Shutdown& shutdown) {
  if (shutdown.generation >= context_.generation) shut_down_ = true;
}

// ---- the workers' messages -----------------------------------------------------------------------------------------

void Shard::HandleWorker(PeerId from, const Message& message, Instant now, Outbox* out) {
  const Header& header = message.header;
  const bool of_worker = header.VisitAs<Push, EndSlot, CoverageQuery, Pull, Assign>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if (!CheckLife(from, body.generation, body.incarnation, out)) return;
    if constexpr (kIsOneOf<Body, Push, EndSlot>) {
      if (!gate_.is_open()) return context_.Refuse(from, Code::kBusy, "the first weights are not kept yet", out);
    }
    if constexpr (kIsOneOf<Body, Push, Assign>) {
      On(from, body, message.payload, now, out);
    } else if constexpr (std::is_same_v<Body, CoverageQuery>) {
      On(from, body, out);
    } else {
      On(from, body, now, out);
    }
  });
  if (of_worker || header.Is<Error>()) return;
  if (const auto* fetch = header.As<Fetch>()) return snapshots_.Handle(from, *fetch, &work_, out);
  const auto* fetched = header.As<Fetched>();
  if (fetched == nullptr)
    return context_.Refuse(from, Code::kInvalid, "a shard does not take this message from a worker", out);
  if (load_) load_->Handle(from, *fetched, message.payload, now, out);
  FinishReset(now, out);
}

bool Shard::CheckLife(PeerId from, Generation generation, Incarnation incarnation, Outbox* out) {
  if (serving() && generation == context_.generation && incarnation == context_.options.incarnation) return true;
  context_.metrics->pushes_stale.Add(1);
  const bool ahead = !serving() || generation > context_.generation;
  context_.Refuse(from, ahead ? Code::kBusy : Code::kStale,
                  context_.name() + " serves generation " + std::to_string(context_.generation.value), out);
  return false;
}

Status Shard::CheckPush(const Push& push, const Slice& payload) const {
  const auto local = context_.local_of.find(push.block);
  if (local == context_.local_of.end()) {
    return Invalid("block " + std::to_string(push.block) + " is not on shard " +
                   std::to_string(context_.options.shard));
  }
  if (!IsTreeNode(push.node, context_.slot_count)) {
    return Invalid("[" + std::to_string(push.node.begin) + ", " + std::to_string(push.node.end) +
                   ") is not a node of the tree over " + std::to_string(context_.slot_count) + " slots");
  }
  if (!HasGlobalSteps(context_.options.mode) && !push.node.IsLeaf()) {
    return Invalid("without global steps each slot is pushed by itself");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckHyperParameters(push.hyper, context_.catalog->group_count()));
  if (push.samples > kSamplesPerPushMax * (push.node.end - push.node.begin)) {
    return Invalid("a push of " + std::to_string(push.samples) + " samples is above the limit");
  }
  if (!std::isnormal(push.loss_scale) || push.loss_scale < 0) {
    return Invalid("a push of loss scale " + std::to_string(push.loss_scale) + "; it is a number above 0");
  }
  const Encoding encoding = push.node.IsLeaf() ? context_.store->encoding(local->second) : Encoding::kFp32;
  if (push.samples != 0 && push.encoding != encoding) {
    return Invalid("block " + std::to_string(push.block) + " takes " + NameOf(encoding) + " of this node, not " +
                   NameOf(push.encoding));
  }
  const std::size_t wanted = push.samples == 0 ? 0 : context_.store->count(local->second) * BytesPerNumber(encoding);
  if (payload.size != wanted) {
    return Invalid("block " + std::to_string(push.block) + " takes " + std::to_string(wanted) + " bytes, not " +
                   std::to_string(payload.size));
  }
  if (push.samples != 0 && Hash64(payload.bytes()) != push.payload_hash) {
    return Corrupt("block " + std::to_string(push.block) + ": the payload does not match its hash");
  }
  return {};
}

void Shard::On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out) {
  if (Status status = CheckPush(push, payload); !status.ok()) {
    (status.code() == Code::kCorrupt ? context_.metrics->pushes_corrupt : context_.metrics->pushes_invalid).Add(1);
    context_.Refuse(from, status.code(), status.message(), out, push.block);
    return;
  }
  const BlockProgress& block = progress_[context_.local_of[push.block]];
  std::uint64_t last = block.last[push.node.begin];
  if (journal_ && IsBeingLogged(push) && push.step.value > last) return;  // it is acknowledged once it is logged
  if (journal_) last = journal_->NewestPush(push.block, push.node.begin).value_or(last);
  switch (AdmitPush(context_.options.mode, push.step, context_.step(), last)) {
    case PushAdmission::kStage: StagePush(from, push, payload, now, out); break;
    case PushAdmission::kApply:
      if (journal_) return journal_->Add(from, RecordOf(push, payload), out);
      ApplyPush(RecordOf(push, payload));
      acknowledgements_.AddPush(from, push.step, push.block, push.node);
      break;
    case PushAdmission::kPassed:
      context_.metrics->pushes_duplicate.Add(1);
      acknowledgements_.AddPush(from, push.step, push.block, push.node);
      break;
    case PushAdmission::kTooEarly:
      context_.metrics->pushes_busy.Add(1);
      context_.Refuse(from, Code::kBusy, "ahead of this shard", out, push.block);
      break;
    case PushAdmission::kGap:
      context_.metrics->pushes_invalid.Add(1);
      context_.Refuse(from, Code::kInvalid, "a sequence number is missing", out, push.block, Step{last});
      break;
  }
}

void Shard::StagePush(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out) {
  const std::size_t local = context_.local_of[push.block];
  const std::size_t position = context_.store->size() - 1 - local;
  BlockProgress& block = progress_[local];
  acknowledgements_.NotePusher(from);
  if (position >= credit()) {
    context_.metrics->pushes_busy.Add(1);
    acknowledgements_.For(from, push.step);  // carries the credit; it is sent again when the window moves
    return;
  }
  if (push.loss_scale != context_.served.parameters.loss_scale) {
    context_.metrics->pushes_invalid.Add(1);
    context_.Refuse(from, Code::kInvalid,
                    "a push of loss scale " + std::to_string(push.loss_scale) + "; the step's is " +
                        std::to_string(context_.served.parameters.loss_scale),
                    out, push.block);
    return;
  }
  if (Status status = hyper_parameters_.Take(push.step, push.node, push.hyper); !status.ok()) {
    context_.metrics->pushes_invalid.Add(1);
    context_.Refuse(from, Code::kInvalid, status.message(), out, push.block);
    return;
  }
  const Result<StagedBlock::Outcome> outcome =
      block.staged.Add(push.node, push.samples, push.payload_hash, payload, push.encoding, context_.slot_count,
                       context_.store->count(local), context_.store->pool());
  if (!outcome.ok()) {
    context_.metrics->pushes_invalid.Add(1);
    context_.Refuse(from, Code::kInvalid, outcome.status().message(), out, push.block);
    return;
  }
  if (*outcome == StagedBlock::Outcome::kMismatch) {
    ++hash_mismatches_;
    context_.metrics->hash_mismatches.Add(1);
    out->Say(Severity::kWarning, "two workers computed different gradients for block " + std::to_string(push.block) +
                                     " at step " + std::to_string(push.step.value) + "; the first is kept (session " +
                                     std::to_string(push.session.value) + " sent the second)");
  }
  (*outcome == StagedBlock::Outcome::kStaged ? context_.metrics->pushes_staged : context_.metrics->pushes_duplicate)
      .Add(1);
  acknowledgements_.AddPush(from, push.step, push.block, push.node);
  if (block.staged.complete() && !block.prepared) {
    PrepareBlock(local);
    MoveWindow();
    PrepareStepWhenComplete(now, out);
    if (!parked_.empty() && welcome_[local]) SendAhead(out);
  }
}

void Shard::Flush(Instant now, Outbox* out) {
  if (journal_) journal_->Append(now);
  if (PullsAreBounded(context_.options.mode) && progress_changed_ && !parked_.empty()) AnswerParkedPulls(now, out);
  acknowledgements_.Send(context_, credit(), HasGlobalSteps(context_.options.mode), out);
}

std::uint32_t Shard::credit() const {
  if (!HasGlobalSteps(context_.options.mode)) return AsyncCredit(context_.options, context_.slot_count);
  return static_cast<std::uint32_t>(std::min(lowest_incomplete_ + context_.options.window_blocks, progress_.size()));
}

void Shard::PrepareBlock(std::size_t local) {
  BlockProgress& block = progress_[local];
  const std::uint64_t samples = block.staged.samples();
  const std::span<double> squares(squares_.data() + segment_start_[local], context_.store->segment_count(local));
  const TrustSquares trust = TrustSquaresOf(local);
  if (samples == 0) {
    for (const std::span<double> sums : {squares, trust.weights, trust.direction}) std::ranges::fill(sums, 0.0);
  } else {
    context_.store->Prepare(local, block.staged.Inputs(), context_.slot_count, Rules(),
                            Scalars(context_.served.parameters.updates, samples), squares, trust);
    context_.metrics->updates_applied.Add(1);
  }
  block.staged.ReleasePayloads();
  block.prepared = true;
}

UpdateScalars Shard::Scalars(std::uint64_t updates, std::uint64_t samples, float loss_scale) const {
  UpdateScalars scalars;
  scalars.step = updates + 1;
  scalars.mean_scale = static_cast<float>(1.0 / (static_cast<double>(samples) * static_cast<double>(loss_scale)));
  scalars.statistic_scale = static_cast<float>(1.0 / static_cast<double>(samples));
  scalars.clip = clip_;
  scalars.trust_ratios = trust_ratios_;
  return scalars;
}

void Shard::MoveWindow() {
  const std::size_t before = lowest_incomplete_;
  const std::size_t count = progress_.size();
  while (lowest_incomplete_ < count && progress_[count - 1 - lowest_incomplete_].prepared) ++lowest_incomplete_;
  if (lowest_incomplete_ == before) return;
  acknowledgements_.OfferCredit(context_.step(), credit());
}

void Shard::On(PeerId from, const EndSlot& end, Instant now, Outbox* out) {
  const SlotIndex slot = end.report.slot;
  if (slot >= context_.slot_count || slot % context_.options.shard_count != context_.options.shard) {
    context_.Refuse(from, Code::kInvalid,
                    "slot " + std::to_string(slot) + " does not end on shard " + std::to_string(context_.options.shard),
                    out);
    return;
  }
  if (Status status = CheckMetrics(end.report.metrics); !status.ok()) {
    context_.Refuse(from, Code::kInvalid, "slot " + std::to_string(slot) + ": " + status.message(), out);
    return;
  }
  if (!HasGlobalSteps(context_.options.mode)) return EndAsync(from, end, out);
  if (end.step > context_.step().Next()) {
    context_.Refuse(from, Code::kBusy, "ahead of this shard", out);
    return;
  }
  // A report for the next step: all shards with blocks have published this step already; our Commit is in flight.
  const bool is_next = end.step == context_.step().Next();
  if (is_next || end.step == context_.step()) {
    StepProgramState& state = is_next ? next_program_state_ : program_state_;
    if (Status status = state.Check(end.step, slot, end.program_state); !status.ok()) {
      context_.Refuse(from, status.code(), status.message(), out);
      return;
    }
    if ((is_next ? next_reports_ : reports_).try_emplace(slot, end.report).second) state.Take(slot, end.program_state);
  }
  acknowledgements_.For(from, end.step).ended.push_back(slot);
  if (end.step == context_.step()) PrepareStepWhenComplete(now, out);
}

// Messages of one sender arrive in order: what it sent before its question has arrived, or is lost.
void Shard::Answer(PeerId from, const CoverageQuery& query) {
  Staged& ack = acknowledgements_.For(from, query.step);
  ack.answers = std::max(ack.answers, query.question);
  ack.pull_waits = parked_.contains(from);
  for (const StagedNode& entry : query.nodes) {
    const auto local = context_.local_of.find(entry.block);
    if (local == context_.local_of.end() || entry.node.begin >= context_.slot_count) continue;
    if (journal_ && journal_->Has(query.step, entry.block, entry.node.begin))
      continue;  // it is acknowledged once it is logged
    (Holds(local->second, query.step, entry.node) ? ack.held : ack.missing).push_back(entry);
  }
}

// For a step that has passed, true: the acknowledgement's step covers all its pushes.
bool Shard::Holds(std::size_t local, Step of, Node node) const {
  const BlockProgress& block = progress_[local];
  if (!HasGlobalSteps(context_.options.mode)) return of.value <= block.last[node.begin];
  if (of != context_.step()) return of < context_.step();
  const std::vector<Node> held = block.staged.nodes();
  return std::any_of(held.begin(), held.end(), [&](Node other) { return other.Contains(node); });
}

void Shard::On(PeerId from, const CoverageQuery& query, Outbox* out) {
  if (query.question != 0) return Answer(from, query);
  if (query.step > context_.step() && HasGlobalSteps(context_.options.mode)) {
    context_.Refuse(from, Code::kBusy, "ahead of this shard", out);
    return;
  }
  Staged& ack = acknowledgements_.For(from, query.step);
  ack.full = true;
  ack.held.clear();
  ack.ended.clear();
  if (!HasGlobalSteps(context_.options.mode)) {
    ack.clocks = SlotClocks();
    return;
  }
  StopAhead(from);
  if (query.step < context_.step()) return;  // `passed` covers all of them
  for (std::size_t local = 0; local < progress_.size(); ++local) {
    for (Node node : progress_[local].staged.nodes()) ack.held.push_back({context_.store->blocks()[local], node});
  }
  for (const auto& [slot, report] : reports_) ack.ended.push_back(slot);
}

// ---- pulls ---------------------------------------------------------------------------------------------------------

void Shard::On(PeerId from, const Pull& pull, Instant now, Outbox* out) {
  if (pull.blocks.size() > kPullBlocksMax || pull.ahead.size() > kAheadNamedMax) {
    context_.Refuse(from, Code::kInvalid,
                    "a pull of " + std::to_string(pull.blocks.size()) + " blocks and " +
                        std::to_string(pull.ahead.size()) + " ahead of their version; at most " +
                        std::to_string(kPullBlocksMax) + " and " + std::to_string(kAheadNamedMax) + " go into one",
                    out);
    return;
  }
  for (const std::vector<BlockIndex>* blocks : {&pull.blocks, &pull.ahead}) {
    for (BlockIndex block : *blocks) {
      if (context_.local_of.contains(block)) continue;
      context_.Refuse(from, Code::kInvalid, "block " + std::to_string(block) + " is not on this shard", out, block);
      return;
    }
  }
  if (pull.array >= context_.store->array_count()) {
    context_.Refuse(from, Code::kInvalid,
                    "array " + std::to_string(pull.array) + " of a block is pulled; the job's optimizer keeps " +
                        std::to_string(context_.store->array_count() - 1) + " besides the weights",
                    out);
    return;
  }
  if (pull.encoding != Encoding::kFp32 && (pull.encoding != context_.options.encoding || pull.array != 0)) {
    context_.Refuse(from, Code::kInvalid,
                    std::string("a pull asks for ") + NameOf(pull.encoding) + " of array " +
                        std::to_string(pull.array) + "; weights come as fp32 or as the job's " +
                        NameOf(context_.options.encoding) + ", states as fp32",
                    out);
    return;
  }
  // A worker that went back to an earlier step no longer waits for a later version: the blocks it lacks
  // belong to this one.
  if (const auto before = parked_.find(from); before != parked_.end() && before->second.pull.version != pull.version) {
    parked_.erase(before);
  }
  const bool of_kept =
      WorkersUpdate(context_.options.mode) && !pull.blocks.empty() && pull.version == context_.served.blocks.version;
  PullAdmission admission =
      of_kept ? PullAdmission::kAnswer
              : AdmitPull(context_.options.mode, pull.version, PullableVersion(), context_.options.staleness);
  if (admission == PullAdmission::kAnswer && !gate_.is_open()) admission = PullAdmission::kPark;
  switch (admission) {
    case PullAdmission::kAnswer: AnswerLate(from, pull, out); return;
    case PullAdmission::kStale: context_.Refuse(from, Code::kStale, "that version is gone", out); return;
    case PullAdmission::kTooEarly: context_.Refuse(from, Code::kBusy, "ahead of this shard", out); return;
    case PullAdmission::kPark: break;
  }
  // One parked pull per peer: a new one replaces the old one.
  ParkedPull parked{from, pull, now, {}};
  if (const auto before = parked_.find(from); before != parked_.end()) {
    if (pull.follows) {
      parked.since = before->second.since;
      parked.sent = std::move(before->second.sent);
    }
    parked_.erase(before);
  }
  if (parked_.size() >= kWaitingPullsMax) {
    context_.Refuse(from, Code::kBusy, "too many pulls wait here", out);
    return;
  }
  if (parked_.empty()) welcome_.assign(progress_.size(), false);
  for (BlockIndex block : pull.ahead) welcome_[context_.local_of[block]] = true;
  SendAhead(&parked, out);
  parked_.emplace(from, std::move(parked));
  context_.metrics->waiting_pulls.Set(static_cast<double>(parked_.size()));
}

void Shard::AnswerPull(PeerId peer, const Pull& pull, Outbox* out) {
  const bool is_held = !WorkersUpdate(context_.options.mode) || pull.version == context_.served.blocks.version;
  if (!is_held && !pull.blocks.empty()) {
    return context_.Refuse(peer, Code::kStale,
                           "version " + std::to_string(pull.version.value) +
                               " is with the workers alone; servers have version " +
                               std::to_string(context_.served.blocks.version.value),
                           out);
  }
  if (pull.follows && HasGlobalSteps(context_.options.mode)) SendPublished(peer, out);
  for (BlockIndex block : pull.blocks) {
    const std::size_t local = context_.local_of[block];
    Weights weights;
    weights.generation = context_.generation;
    weights.incarnation = context_.options.incarnation;
    weights.version =
        HasGlobalSteps(context_.options.mode) ? context_.served.blocks.version : Version{progress_[local].updates};
    weights.asked = pull.version;
    weights.attempt = context_.served.last_commit ? context_.served.last_commit->attempt : 0;
    weights.block = block;
    weights.stop = context_.served.parameters.stop && context_.served.parameters.held;
    weights.loss_scale = context_.served.parameters.loss_scale;
    weights.array = pull.array;
    weights.updates = HasGlobalSteps(context_.options.mode) ? context_.served.blocks.updates : progress_[local].updates;
    if (block == 0 && pull.array == 0) weights.program_state = context_.served.parameters.program_state;
    BlockStore::Sendable sendable;
    if (pull.array == 0) {
      weights.encoding = pull.encoding == Encoding::kFp32 ? Encoding::kFp32 : context_.store->encoding(local);
      sendable = context_.store->ToSend(local, weights.encoding);
    } else {
      sendable.values = context_.store->Arrays(local)[pull.array];
      sendable.hash = Hash64(sendable.values.bytes());
    }
    weights.payload_hash = sendable.hash;
    out->Send(peer, std::move(weights), std::move(sendable.values));
  }
}

Version Shard::PullableVersion() const {
  if (!PullsAreBounded(context_.options.mode)) return context_.served.version;
  return Version{slot_clocks_.least()};
}

void Shard::AnswerParkedPulls(Instant now, Outbox* out) {
  if (!gate_.is_open()) return;
  const Version pullable = PullableVersion();
  std::erase_if(parked_, [&](const auto& entry) {
    const ParkedPull& parked = entry.second;
    const PullAdmission admission =
        AdmitPull(context_.options.mode, parked.pull.version, pullable, context_.options.staleness);
    if (admission == PullAdmission::kAnswer) {
      context_.metrics->pull_wait_seconds.Observe(std::chrono::duration<double>(now - parked.since).count());
      AnswerWaiting(parked, out);
    }
    return admission != PullAdmission::kPark;  // a stale pull is dropped; its sender asks again
  });
  context_.metrics->waiting_pulls.Set(static_cast<double>(parked_.size()));
}

// ---- repetition ----------------------------------------------------------------------------------------------------

void Shard::Tick(Instant now, Outbox* out) {
  if (now - last_coordinator_ >= kHelloAfterSilence && hello_backoff_.Due(now)) {
    hello_backoff_.Sent(now);
    out->Send(context_.options.coordinator, MakeHello());
  }
  identity_.Tick(now, &work_);
  if (load_) load_->Tick(now, out);
  if (journal_ && load_) journal_->Tick(now);
  snapshots_.Tick(now, out);
  if (prepared_ && prepared_backoff_.Due(now)) {
    prepared_backoff_.Sent(now);
    out->Send(context_.options.coordinator, MakePrepared());
  }
  if (!HasGlobalSteps(context_.options.mode) && serving() && (progress_changed_ || prepared_backoff_.Due(now)) &&
      now >= next_progress_) {
    progress_changed_ = false;
    next_progress_ = now + kProgressEvery;
    prepared_backoff_.Sent(now);
    out->Send(context_.options.coordinator, MakeProgress());
  }
  context_.metrics->staging_bytes.Set(staged_bytes());
  if (context_.store) {
    context_.metrics->pool_used_bytes.Set(context_.store->pool_used_bytes());
    context_.metrics->pool_free_bytes.Set(context_.store->pool_bytes() - context_.store->pool_used_bytes());
  }
}

Hello Shard::MakeHello() const {
  Hello hello;
  hello.shard = context_.options.shard;
  hello.incarnation = context_.options.incarnation;
  hello.term = context_.term;
  hello.generation = context_.generation;
  hello.job = identity_.life().job;
  hello.serving = serving();
  hello.version = serving() ? context_.served.version : Version{0};
  hello.parts = snapshots_.parts();
  hello.newest_kept = identity_.life().newest_kept;
  if (context_.served.last_commit != nullptr) hello.last_commit = *context_.served.last_commit;
  if (prepared_) hello.prepared = MakePrepared();
  hello.config_hash = context_.options.config_hash;
  hello.endpoint = context_.options.endpoint;
  hello.metrics = context_.options.metrics;
  return hello;
}

std::uint64_t Shard::staged_bytes() const {
  std::uint64_t bytes = 0;
  for (const BlockProgress& block : progress_) bytes += block.staged.payload_bytes();
  return bytes;
}

bool Shard::IsBeingLogged(const Push& push) const {
  return journal_ && journal_->Has(push.step, push.block, push.node.begin);
}

}  // namespace capstan::server
