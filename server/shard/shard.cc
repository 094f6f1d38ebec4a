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
    : options_(std::move(options)),
      metrics_(std::move(metrics)),
      life_(options_.life),
      parts_(options_.parts),
      log_queue_(options_.log_bytes_max, options_.log_records_max),
      log_backoff_(options_.shard),
      term_(options_.life.term),
      generation_(options_.life.generation),
      hello_backoff_(options_.shard),
      prepared_backoff_(options_.shard),
      snapshot_backoff_(options_.shard) {
  CAPSTAN_CHECK(options_.shard < options_.shard_count);
  metrics_->incarnation.Set(static_cast<double>(options_.incarnation.value));
}

Shard::~Shard() = default;

void Shard::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (from == options_.coordinator) {
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
    if (body.term < term_) return;  // from a coordinator that has been replaced
    term_ = body.term;
    metrics_->term.Set(static_cast<double>(term_.value));
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
  const bool mine = error->incarnation.value == 0 || error->incarnation == options_.incarnation;
  if (error->code == Code::kRefused && mine) {
    refusal_ = Refused("the coordinator refuses this shard: " + error->message);
    out->Say(Severity::kError, refusal_.message());
    shut_down_ = true;
  }
}

void Shard::On(const Ping&, Outbox* out) { out->Send(options_.coordinator, MakeHello()); }

void Shard::On(const Shutdown& shutdown) {
  if (shutdown.generation >= generation_) shut_down_ = true;
}

// ---- the workers' messages -----------------------------------------------------------------------------------------

void Shard::HandleWorker(PeerId from, const Message& message, Instant now, Outbox* out) {
  const Header& header = message.header;
  const bool of_worker = header.VisitAs<Push, EndSlot, CoverageQuery, Pull, Assign>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if (!CheckLife(from, body.generation, body.incarnation, out)) return;
    if constexpr (kIsOneOf<Body, Push, EndSlot>) {
      if (!first_weights_.kept()) return Refuse(from, Code::kBusy, "the first weights are not kept yet", out);
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
  if (const auto* fetch = header.As<Fetch>()) return On(from, *fetch, out);
  const auto* fetched = header.As<Fetched>();
  if (fetched == nullptr) return Refuse(from, Code::kInvalid, "a shard does not take this message from a worker", out);
  if (load_) load_->Handle(from, *fetched, message.payload, now, out);
  FinishReset(now, out);
}

bool Shard::CheckLife(PeerId from, Generation generation, Incarnation incarnation, Outbox* out) {
  if (serving() && generation == generation_ && incarnation == options_.incarnation) return true;
  metrics_->pushes_stale.Add(1);
  const bool ahead = !serving() || generation > generation_;
  Refuse(from, ahead ? Code::kBusy : Code::kStale,
         "shard " + std::to_string(options_.shard) + " serves generation " + std::to_string(generation_.value), out);
  return false;
}

Status Shard::CheckPush(const Push& push, const Slice& payload) const {
  const auto local = local_of_.find(push.block);
  if (local == local_of_.end()) {
    return Invalid("block " + std::to_string(push.block) + " is not on shard " + std::to_string(options_.shard));
  }
  if (!IsTreeNode(push.node, slot_count_)) {
    return Invalid("[" + std::to_string(push.node.begin) + ", " + std::to_string(push.node.end) +
                   ") is not a node of the tree over " + std::to_string(slot_count_) + " slots");
  }
  if (!HasGlobalSteps(options_.mode) && !push.node.IsLeaf()) {
    return Invalid("without global steps each slot is pushed by itself");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckHyperParameters(push.hyper, catalog_->group_count()));
  if (push.samples > kSamplesPerPushMax * (push.node.end - push.node.begin)) {
    return Invalid("a push of " + std::to_string(push.samples) + " samples is above the limit");
  }
  if (!std::isnormal(push.loss_scale) || push.loss_scale < 0) {
    return Invalid("a push of loss scale " + std::to_string(push.loss_scale) + "; it is a number above 0");
  }
  const Encoding encoding = push.node.IsLeaf() ? store_->encoding(local->second) : Encoding::kFp32;
  if (push.samples != 0 && push.encoding != encoding) {
    return Invalid("block " + std::to_string(push.block) + " takes " + NameOf(encoding) + " of this node, not " +
                   NameOf(push.encoding));
  }
  const std::size_t wanted = push.samples == 0 ? 0 : store_->count(local->second) * BytesPerNumber(encoding);
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
    (status.code() == Code::kCorrupt ? metrics_->pushes_corrupt : metrics_->pushes_invalid).Add(1);
    Refuse(from, status.code(), status.message(), out, push.block);
    return;
  }
  const BlockProgress& block = progress_[local_of_[push.block]];
  std::uint64_t last = block.last[push.node.begin];
  if (IsBeingLogged(push) && push.step.value > last) return;  // it is acknowledged once it is logged
  last = log_queue_.NewestPush(push.block, push.node.begin).value_or(last);
  switch (AdmitPush(options_.mode, push.step, step(), last)) {
    case PushAdmission::kStage: StagePush(from, push, payload, now, out); break;
    case PushAdmission::kApply:
      if (Durable()) return Log(from, RecordOf(push, payload), out);
      ApplyPush(RecordOf(push, payload));
      Acknowledge(from, push.step, push.block, push.node);
      break;
    case PushAdmission::kPassed:
      metrics_->pushes_duplicate.Add(1);
      Acknowledge(from, push.step, push.block, push.node);
      break;
    case PushAdmission::kTooEarly:
      metrics_->pushes_busy.Add(1);
      Refuse(from, Code::kBusy, "ahead of this shard", out, push.block);
      break;
    case PushAdmission::kGap:
      metrics_->pushes_invalid.Add(1);
      Refuse(from, Code::kInvalid, "a sequence number is missing", out, push.block, Step{last});
      break;
  }
}

void Shard::StagePush(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out) {
  const std::size_t local = local_of_[push.block];
  const std::size_t position = store_->size() - 1 - local;
  BlockProgress& block = progress_[local];
  told_credit_.try_emplace(from, 0);
  if (position >= credit()) {
    metrics_->pushes_busy.Add(1);
    AckFor(from, push.step);  // carries the credit; it is sent again when the window moves
    return;
  }
  if (push.loss_scale != parameters_.loss_scale) {
    metrics_->pushes_invalid.Add(1);
    Refuse(from, Code::kInvalid,
           "a push of loss scale " + std::to_string(push.loss_scale) + "; the step's is " +
               std::to_string(parameters_.loss_scale),
           out, push.block);
    return;
  }
  if (Status status = hyper_parameters_.Take(push.step, push.node, push.hyper); !status.ok()) {
    metrics_->pushes_invalid.Add(1);
    Refuse(from, Code::kInvalid, status.message(), out, push.block);
    return;
  }
  const Result<StagedBlock::Outcome> outcome =
      block.staged.Add(push.node, push.samples, push.payload_hash, payload, push.encoding, slot_count_,
                       store_->count(local), store_->pool());
  if (!outcome.ok()) {
    metrics_->pushes_invalid.Add(1);
    Refuse(from, Code::kInvalid, outcome.status().message(), out, push.block);
    return;
  }
  if (*outcome == StagedBlock::Outcome::kMismatch) {
    ++hash_mismatches_;
    metrics_->hash_mismatches.Add(1);
    out->Say(Severity::kWarning, "two workers computed different gradients for block " + std::to_string(push.block) +
                                     " at step " + std::to_string(push.step.value) + "; the first is kept (session " +
                                     std::to_string(push.session.value) + " sent the second)");
  }
  (*outcome == StagedBlock::Outcome::kStaged ? metrics_->pushes_staged : metrics_->pushes_duplicate).Add(1);
  Acknowledge(from, push.step, push.block, push.node);
  if (block.staged.complete() && !block.prepared) {
    PrepareBlock(local);
    MoveWindow();
    PrepareStepWhenComplete(now, out);
    if (!parked_.empty() && welcome_[local]) SendAhead(out);
  }
}

Staged& Shard::AckFor(PeerId from, Step step) {
  std::unique_ptr<Staged>& held = acks_[{from, step}];
  if (held == nullptr) held = std::make_unique<Staged>();
  Staged& ack = *held;
  ack.step = step;
  return ack;
}

void Shard::Acknowledge(PeerId from, Step step, BlockIndex block, Node node) {
  AckFor(from, step).held.push_back({block, node});
}

void Shard::Flush(Instant now, Outbox* out) {
  StartAppend(now);
  if (PullsAreBounded(options_.mode) && progress_changed_ && !parked_.empty()) AnswerParkedPulls(now, out);
  SendAssigned(out);  // before the answer to a question that arrived later
  for (auto& [key, held] : acks_) {
    Staged& ack = *held;
    ack.generation = generation_;
    ack.incarnation = options_.incarnation;
    ack.shard = options_.shard;
    ack.passed = HasGlobalSteps(options_.mode) && key.second < step();
    ack.present = step();
    ack.credit = credit();
    if (ack.full) ArrangeToFit(&ack.held);
    if (const auto told = told_credit_.find(key.first); told != told_credit_.end()) told->second = ack.credit;
    out->Send(key.first, std::move(ack));
  }
  acks_.clear();
}

std::uint32_t Shard::credit() const {
  if (!HasGlobalSteps(options_.mode)) return AsyncCredit(options_, slot_count_);
  return static_cast<std::uint32_t>(std::min(lowest_incomplete_ + options_.window_blocks, progress_.size()));
}

void Shard::PrepareBlock(std::size_t local) {
  BlockProgress& block = progress_[local];
  const std::uint64_t samples = block.staged.samples();
  const std::span<double> squares(squares_.data() + segment_start_[local], store_->segment_count(local));
  const TrustSquares trust = TrustSquaresOf(local);
  if (samples == 0) {
    for (const std::span<double> sums : {squares, trust.weights, trust.direction}) std::ranges::fill(sums, 0.0);
  } else {
    store_->Prepare(local, block.staged.Inputs(), slot_count_, Rules(), Scalars(parameters_.updates, samples), squares,
                    trust);
    metrics_->updates_applied.Add(1);
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
  for (const auto& [peer, told] : told_credit_) {
    if (told < credit()) AckFor(peer, step());
  }
}

void Shard::On(PeerId from, const EndSlot& end, Instant now, Outbox* out) {
  const SlotIndex slot = end.report.slot;
  if (slot >= slot_count_ || slot % options_.shard_count != options_.shard) {
    Refuse(from, Code::kInvalid,
           "slot " + std::to_string(slot) + " does not end on shard " + std::to_string(options_.shard), out);
    return;
  }
  if (Status status = CheckMetrics(end.report.metrics); !status.ok()) {
    Refuse(from, Code::kInvalid, "slot " + std::to_string(slot) + ": " + status.message(), out);
    return;
  }
  if (!HasGlobalSteps(options_.mode)) return EndAsync(from, end, out);
  if (end.step > step().Next()) {
    Refuse(from, Code::kBusy, "ahead of this shard", out);
    return;
  }
  // A report for the next step: all shards with blocks have published this step already; our Commit is in flight.
  const bool is_next = end.step == step().Next();
  if (is_next || end.step == step()) {
    StepProgramState& state = is_next ? next_program_state_ : program_state_;
    if (Status status = state.Check(end.step, slot, end.program_state); !status.ok()) {
      Refuse(from, status.code(), status.message(), out);
      return;
    }
    if ((is_next ? next_reports_ : reports_).try_emplace(slot, end.report).second) state.Take(slot, end.program_state);
  }
  AckFor(from, end.step).ended.push_back(slot);
  if (end.step == step()) PrepareStepWhenComplete(now, out);
}

// Messages of one sender arrive in order: what it sent before its question has arrived, or is lost.
void Shard::Answer(PeerId from, const CoverageQuery& query) {
  Staged& ack = AckFor(from, query.step);
  ack.answers = std::max(ack.answers, query.question);
  ack.pull_waits = parked_.contains(from);
  for (const StagedNode& entry : query.nodes) {
    const auto local = local_of_.find(entry.block);
    if (local == local_of_.end() || entry.node.begin >= slot_count_) continue;
    if (IsBeingLogged(query.step, entry)) continue;  // it is acknowledged once it is logged
    (Holds(local->second, query.step, entry.node) ? ack.held : ack.missing).push_back(entry);
  }
}

// For a step that has passed, true: the acknowledgement's step covers all its pushes.
bool Shard::Holds(std::size_t local, Step of, Node node) const {
  const BlockProgress& block = progress_[local];
  if (!HasGlobalSteps(options_.mode)) return of.value <= block.last[node.begin];
  if (of != step()) return of < step();
  const std::vector<Node> held = block.staged.nodes();
  return std::any_of(held.begin(), held.end(), [&](Node other) { return other.Contains(node); });
}

void Shard::On(PeerId from, const CoverageQuery& query, Outbox* out) {
  if (query.question != 0) return Answer(from, query);
  if (query.step > step() && HasGlobalSteps(options_.mode)) {
    Refuse(from, Code::kBusy, "ahead of this shard", out);
    return;
  }
  Staged& ack = AckFor(from, query.step);
  ack.full = true;
  ack.held.clear();
  ack.ended.clear();
  if (!HasGlobalSteps(options_.mode)) {
    ack.clocks = SlotClocks();
    return;
  }
  StopAhead(from);
  if (query.step < step()) return;  // `passed` covers all of them
  for (std::size_t local = 0; local < progress_.size(); ++local) {
    for (Node node : progress_[local].staged.nodes()) ack.held.push_back({store_->blocks()[local], node});
  }
  for (const auto& [slot, report] : reports_) ack.ended.push_back(slot);
}

// ---- pulls ---------------------------------------------------------------------------------------------------------

void Shard::On(PeerId from, const Pull& pull, Instant now, Outbox* out) {
  if (pull.blocks.size() > kPullBlocksMax || pull.ahead.size() > kAheadNamedMax) {
    Refuse(from, Code::kInvalid,
           "a pull of " + std::to_string(pull.blocks.size()) + " blocks and " + std::to_string(pull.ahead.size()) +
               " ahead of their version; at most " + std::to_string(kPullBlocksMax) + " and " +
               std::to_string(kAheadNamedMax) + " go into one",
           out);
    return;
  }
  for (const std::vector<BlockIndex>* blocks : {&pull.blocks, &pull.ahead}) {
    for (BlockIndex block : *blocks) {
      if (local_of_.contains(block)) continue;
      Refuse(from, Code::kInvalid, "block " + std::to_string(block) + " is not on this shard", out, block);
      return;
    }
  }
  if (pull.array >= store_->array_count()) {
    Refuse(from, Code::kInvalid,
           "array " + std::to_string(pull.array) + " of a block is pulled; the job's optimizer keeps " +
               std::to_string(store_->array_count() - 1) + " besides the weights",
           out);
    return;
  }
  if (pull.encoding != Encoding::kFp32 && (pull.encoding != options_.encoding || pull.array != 0)) {
    Refuse(from, Code::kInvalid,
           std::string("a pull asks for ") + NameOf(pull.encoding) + " of array " + std::to_string(pull.array) +
               "; weights come as fp32 or as the job's " + NameOf(options_.encoding) + ", states as fp32",
           out);
    return;
  }
  // A worker that went back to an earlier step no longer waits for a later version: the blocks it lacks
  // belong to this one.
  if (const auto before = parked_.find(from); before != parked_.end() && before->second.pull.version != pull.version) {
    parked_.erase(before);
  }
  const bool of_kept = WorkersUpdate(options_.mode) && !pull.blocks.empty() && pull.version == held_.version;
  PullAdmission admission =
      of_kept ? PullAdmission::kAnswer : AdmitPull(options_.mode, pull.version, PullableVersion(), options_.staleness);
  if (admission == PullAdmission::kAnswer && !first_weights_.kept()) admission = PullAdmission::kPark;
  switch (admission) {
    case PullAdmission::kAnswer: AnswerLate(from, pull, out); return;
    case PullAdmission::kStale: Refuse(from, Code::kStale, "that version is gone", out); return;
    case PullAdmission::kTooEarly: Refuse(from, Code::kBusy, "ahead of this shard", out); return;
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
    Refuse(from, Code::kBusy, "too many pulls wait here", out);
    return;
  }
  if (parked_.empty()) welcome_.assign(progress_.size(), false);
  for (BlockIndex block : pull.ahead) welcome_[local_of_[block]] = true;
  SendAhead(&parked, out);
  parked_.emplace(from, std::move(parked));
  metrics_->waiting_pulls.Set(static_cast<double>(parked_.size()));
}

void Shard::AnswerPull(PeerId peer, const Pull& pull, Outbox* out) {
  const bool is_held = !WorkersUpdate(options_.mode) || pull.version == held_.version;
  if (!is_held && !pull.blocks.empty()) {
    return Refuse(peer, Code::kStale,
                  "version " + std::to_string(pull.version.value) +
                      " is with the workers alone; servers have version " + std::to_string(held_.version.value),
                  out);
  }
  if (pull.follows && HasGlobalSteps(options_.mode)) SendPublished(peer, out);
  for (BlockIndex block : pull.blocks) {
    const std::size_t local = local_of_[block];
    Weights weights;
    weights.generation = generation_;
    weights.incarnation = options_.incarnation;
    weights.version = HasGlobalSteps(options_.mode) ? held_.version : Version{progress_[local].updates};
    weights.asked = pull.version;
    weights.attempt = last_commit_ ? last_commit_->attempt : 0;
    weights.block = block;
    weights.stop = parameters_.stop && parameters_.held;
    weights.loss_scale = parameters_.loss_scale;
    weights.array = pull.array;
    weights.updates = HasGlobalSteps(options_.mode) ? held_.updates : progress_[local].updates;
    if (block == 0 && pull.array == 0) weights.program_state = parameters_.program_state;
    BlockStore::Sendable sendable;
    if (pull.array == 0) {
      weights.encoding = pull.encoding == Encoding::kFp32 ? Encoding::kFp32 : store_->encoding(local);
      sendable = store_->ToSend(local, weights.encoding);
    } else {
      sendable.values = store_->Arrays(local)[pull.array];
      sendable.hash = Hash64(sendable.values.bytes());
    }
    weights.payload_hash = sendable.hash;
    out->Send(peer, std::move(weights), std::move(sendable.values));
  }
}

Version Shard::PullableVersion() const {
  if (!PullsAreBounded(options_.mode)) return version_;
  return Version{slot_clocks_.least()};
}

void Shard::AnswerParkedPulls(Instant now, Outbox* out) {
  if (!first_weights_.kept()) return;
  const Version pullable = PullableVersion();
  std::erase_if(parked_, [&](const auto& entry) {
    const ParkedPull& parked = entry.second;
    const PullAdmission admission = AdmitPull(options_.mode, parked.pull.version, pullable, options_.staleness);
    if (admission == PullAdmission::kAnswer) {
      metrics_->pull_wait_seconds.Observe(std::chrono::duration<double>(now - parked.since).count());
      AnswerWaiting(parked, out);
    }
    return admission != PullAdmission::kPark;  // a stale pull is dropped; its sender asks again
  });
  metrics_->waiting_pulls.Set(static_cast<double>(parked_.size()));
}

// ---- repetition ----------------------------------------------------------------------------------------------------

void Shard::Tick(Instant now, Outbox* out) {
  if (now - last_coordinator_ >= kHelloAfterSilence && hello_backoff_.Due(now)) {
    hello_backoff_.Sent(now);
    out->Send(options_.coordinator, MakeHello());
  }
  if (life_failed_ && life_backoff_.Due(now)) {
    life_failed_ = false;
    work_.emplace_back(RememberLife{life_});
  }
  if (load_) load_->Tick(now, out);
  if (load_ && !log_ready_ && log_begin_failed_ && log_backoff_.Due(now)) BeginHistory(now);
  if (snapshot_done_ && !snapshot_settled_ && snapshot_backoff_.Due(now)) SendSnapshotDone(now, out);
  if (prepared_ && prepared_backoff_.Due(now)) {
    prepared_backoff_.Sent(now);
    out->Send(options_.coordinator, MakePrepared());
  }
  if (!HasGlobalSteps(options_.mode) && serving() && (progress_changed_ || prepared_backoff_.Due(now)) &&
      now >= next_progress_) {
    progress_changed_ = false;
    next_progress_ = now + kProgressEvery;
    prepared_backoff_.Sent(now);
    out->Send(options_.coordinator, MakeProgress());
  }
  metrics_->staging_bytes.Set(staged_bytes());
  if (store_) {
    metrics_->pool_used_bytes.Set(store_->pool_used_bytes());
    metrics_->pool_free_bytes.Set(store_->pool_bytes() - store_->pool_used_bytes());
  }
}

Hello Shard::MakeHello() const {
  Hello hello;
  hello.shard = options_.shard;
  hello.incarnation = options_.incarnation;
  hello.term = term_;
  hello.generation = generation_;
  hello.job = life_.job;
  hello.serving = serving();
  hello.version = serving() ? version_ : Version{0};
  hello.parts = parts_;
  hello.newest_kept = life_.newest_kept;
  if (last_commit_ != nullptr) hello.last_commit = *last_commit_;
  if (prepared_) hello.prepared = MakePrepared();
  hello.config_hash = options_.config_hash;
  hello.endpoint = options_.endpoint;
  hello.metrics = options_.metrics;
  return hello;
}

void Shard::Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block, Step last) {
  Error error;
  error.code = code;
  error.generation = generation_;
  error.incarnation = options_.incarnation;
  error.step = step();
  error.last = last;
  error.block = block;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

std::uint64_t Shard::staged_bytes() const {
  std::uint64_t bytes = 0;
  for (const BlockProgress& block : progress_) bytes += block.staged.payload_bytes();
  return bytes;
}

bool Shard::IsBeingLogged(const Push& push) const { return IsBeingLogged(push.step, {push.block, push.node}); }

bool Shard::IsBeingLogged(Step sequence, const StagedNode& push) const {
  const auto newest = log_queue_.NewestPush(push.block, push.node.begin);
  return newest && sequence.value <= *newest;
}

}  // namespace capstan::server
