#include "worker/session/session.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"

namespace capstan::session {

Session::Session(SessionOptions options) : options_(std::move(options)), coordinator_(options_.nonce) {}

void Session::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (ended_) return;
  if (from == options_.coordinator) {
    coordinator_.MessageArrived(now);
    message.header.VisitAs<View, Error>([&](const auto& body) { On(body, now, out); });
    return;
  }
  ShardLink* link = links_.Find(from);
  if (link == nullptr) return;
  message.header.VisitAs<Staged, Weights, UploadAck, Published, Error>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if constexpr (std::is_same_v<Body, Error>) {
      // It names no start of the shard if it is of this process's own transport, or if the shard does not know the
      // sender. Who refuses is another shard than the coordinator has named, or lets no process like this one in.
      if (body.incarnation.value == 0) {
        if (body.code == Code::kRefused) {
          return Fail(
              Refused("shard " + std::to_string(link->index()) + ": " + Excerpt(body.message, kLongExcerptBytesMax)));
        }
        link->last_message = now;
        // It may not have heard of this session yet; a later question finds out.
        if (body.code == Code::kBusy) link->knows_us = false;
        return;
      }
    }
    // A message of another start of the shard is dropped. If that start is newer, the next view will name it.
    if (body.incarnation != link->shard.address.incarnation) return;
    link->last_message = now;
    link->knows_us = true;
    if (body.generation != context_.generation) return;  // around a recovery: the next view decides
    if constexpr (std::is_same_v<Body, Weights>) {
      On(link, body, message.payload, now, out);
    } else if constexpr (std::is_same_v<Body, UploadAck>) {
      uploads_.Acknowledge(link, body, now, out);
    } else {
      On(link, body, now, out);
    }
  });
}

bool Session::HandsOver(PeerId from, const Header& header, std::size_t payload_bytes) const {
  const auto* weights = header.As<Weights>();
  const ShardLink* link = weights == nullptr ? nullptr : links_.Find(from);
  if (ended_ || link == nullptr || round_.state != RoundState::kPulling || !round_.announced) return false;
  if (weights->incarnation != link->shard.address.incarnation || weights->generation != context_.generation)
    return false;
  if (weights->speculative || weights->stop || !mode_.plan->Wants(*weights)) return false;
  return link->down.MissingIndex(*weights, payload_bytes).has_value();
}

// ---- the coordinator -----------------------------------------------------------------------------------------------

void Session::Declare(Declaration declaration, Instant now, Outbox* out) {
  Result<Catalog> catalog = Catalog::Create(declaration.catalog, options_.block_elements);
  if (!catalog.ok()) return Fail(catalog.status());
  context_.catalog = std::move(catalog).value();
  context_.encoding = declaration.encoding;
  context_.speculates = declaration.speculates;
  mode_ = MakeModeParts(declaration.mode, declaration.steps, declaration.state_arrays);
  uploads_.Bring(std::move(declaration.given));
  declaration_ = std::move(declaration);
  coordinator_.RestartJoin();
  SendJoin(now, out);
}

void Session::SendJoin(Instant now, Outbox* out) {
  coordinator_.JoinSent(now);
  Join join;
  join.job = view_.job();
  join.worker = options_.name;
  join.nonce = options_.nonce;
  join.rank = options_.rank;
  join.ranks = options_.ranks;
  join.machine = options_.machine;
  join.metrics = options_.metrics;
  if (declaration_) {
    join.numeric_class = declaration_->numeric_class;
    join.numeric_fingerprint = declaration_->numeric_fingerprint;
    join.data_fingerprint = declaration_->data_fingerprint;
    join.catalog = declaration_->catalog;
  }
  out->Send(options_.coordinator, std::move(join));
}

void Session::On(const Error& error, Instant now, Outbox* out) {
  if (error.code == Code::kRefused) {
    Fail(Refused("the coordinator refuses this worker: " + Excerpt(error.message, kLongExcerptBytesMax)));
  } else if (error.code == Code::kStale && id().value != 0) {  // a coordinator that restarted lacks this session
    context_.session = {};
    coordinator_.RestartJoin();
    SendJoin(now, out);
  } else if (error.code == Code::kBusy) {
    coordinator_.NoteBusy(Excerpt(error.message, kLongExcerptBytesMax));
  }
}

void Session::On(const View& view, Instant now, Outbox* out) {
  if (view_.IsOlder(view)) return;
  if (!view.job_file.empty()) {
    view_.SetJob(view.job);
    if (!declaration_) events_.push_back(JobFile{view.job_file, view.job});
    return;
  }
  if (!declaration_ || view.session.value == 0 || !view_.IsSound(view)) return;
  if (view.session != context_.session) {
    context_.session = view.session;
    events_.push_back(Joined{});
  }
  if (view_.HasNewNotice(view)) out->Log(Severity::kWarning, Excerpt(view.notice, kLongExcerptBytesMax));
  const bool had_slots = !view_.slots().empty();
  // In allreduce this session's slots stay the same for a whole generation.
  view_.Take(view, mode_.plan->KeepsSlots() && view.generation == context_.generation);
  if (barrier_.waits()) FollowBarrier(view, now, out);
  if (view.phase == JobPhase::kDone || view.phase == JobPhase::kFailed) {
    VoidRound();
    Leave("the job is over", out);  // the coordinator need not wait for this worker
    if (view.phase == JobPhase::kFailed)
      return Fail(Refused("the job failed: " + Excerpt(view.message, kLongExcerptBytesMax)));
    ended_ = true;
    events_.push_back(Finished{});
    return;
  }
  if (view.phase != JobPhase::kRunning) return;
  if (view.generation > context_.generation) {
    if (view.shards.empty())
      return;  // meant for this worker's earlier session; our next Heartbeat names our generation
    EnterGeneration(view, now, out);
    if (ended_) return;
  }
  WorkerGroup::News group = mode_.group->Follow(view, context_.generation);
  // The machine's group is over: this session sends the pushes that it deferred for that group.
  if (group.replaced) ReleasePushes(round_.number, now, out);
  if (group.event) events_.push_back(*std::move(group.event));
  if (view.founder && view.step.value == 0 && view.generation == context_.generation) UploadInitialWeights(now, out);
  if (ended_) return;
  if (view_.TakeSlotsChanged()) {
    mode_.plan->SlotsChanged();
    const bool pulls = round_.state == RoundState::kPulling;
    const auto pulled = pulls ? mode_.plan->ReconsiderPull(round_.announced) : WorkPlan::Pulled::kStays;
    if (pulled == WorkPlan::Pulled::kVoid) VoidRound();
    if (pulled == WorkPlan::Pulled::kBack) DropPulls();
  }
  if (view_.TakeSessionChanged() && !mode_.plan->KeepsSlots()) StartOverWithin(view_.newest().slots);
  // A worker that had no slots took no part in recent steps; it begins at the job's current step.
  const bool idle = !had_slots && round_.state == RoundState::kNone && view.generation == context_.generation;
  if (idle && mode_.plan->IsBehind(view.step)) MoveToStep(view.step, now, out);
  if (application_ready_ && mode_.plan->MustGive(view, context_.generation) && round_.state == RoundState::kPulling) {
    // The application waits for the next version, and the present one is wanted first.
    (void)mode_.plan->ReconsiderPull(round_.announced);
    mode_.plan->SlotsChanged();
    DropPulls();
  }
  if (application_ready_ && round_.state == RoundState::kNone) BeginRound(now, out);
}

void Session::Barrier(Instant now, Outbox* out) {
  if (ended_ || left_ || barrier_.waits()) return;
  barrier_.Begin();
  if (id().value != 0 && view_.known()) FollowBarrier(view_.newest(), now, out);
}

void Session::FollowBarrier(const View& view, Instant now, Outbox* out) {
  BarrierWait::News news = barrier_.Follow(view);
  if (news.event) events_.push_back(*std::move(news.event));
  if (news.numbered) SendBeat(now, out);
}

void Session::EnterGeneration(const View& view, Instant now, Outbox* out) {
  VoidRound();
  const std::uint64_t number = round_.number;
  round_ = {};
  round_.number = number;  // rises for as long as the session lives
  context_.generation = view.generation;
  mode_.plan->EnterGeneration(view.step);
  mode_.group->EnterGeneration();
  uploads_.EnterGeneration();
  for (PeerId peer : links_.PeersNotIn(view.shards)) options_.disconnect(peer);
  const ShardLinks::Options options{options_.nonce, options_.first_retry,
                                    [this] { return mode_.make_credit(options_.initial_credit); }};
  const auto unconnected = links_.Begin(view.shards, options, options_.connect, now);
  if (!unconnected) return;
  const std::string reason = unconnected->shard + " cannot be connected to";
  Leave(reason, out);
  Fail({unconnected->status.code(), reason + ": " + unconnected->status.message()});
}

// Uploads this worker's initial weights, because the job asks for them. Fails if this worker no longer has them.
void Session::UploadInitialWeights(Instant now, Outbox* out) {
  if (uploads_.initial_of() == context_.generation) return;
  if (uploads_.has_initial()) return uploads_.BeginInitial(context_, &links_, now, out);
  VoidRound();
  Leave("it has no first weights to give", out);
  Fail(
      Refused("the job asks this worker for the first weights, and it has none any more: the job "
              "was taken back to its beginning; start this worker again"));
}

void Session::ReportGroup(Generation generation, GroupState state, std::string text, Instant now, Outbox* out) {
  if (ended_ || left_ || !declaration_ || generation != context_.generation) return;
  mode_.group->Report(state, std::move(text));
  if (id().value != 0) SendBeat(now, out);  // otherwise the next session's first Heartbeat reports it
}

void Session::ReportMachineGroup(std::uint64_t epoch, GroupState state, std::string text, Instant now, Outbox* out) {
  if (ended_ || left_ || id().value == 0 || epoch != mode_.group->epoch()) return;
  mode_.group->Report(state, std::move(text));
  SendBeat(now, out);
}

void Session::Leave(const std::string& reason, Outbox* out) {
  if (id().value != 0) out->Send(options_.coordinator, capstan::Leave{context_.session, options_.nonce, reason});
  left_ = true;
}

// ---- shards --------------------------------------------------------------------------------------------------------

void Session::On(ShardLink* link, const Staged& staged, Instant now, Outbox* out) {
  if (link->up.Settle(staged, now)) deferred_.Acknowledged(now);
  if (staged.passed) link->up.DropThrough(staged.step);
  link->up.TakeCredit(staged, now);
  if (staged.answers != 0) {
    link->up.SendLost(staged, out);
    uploads_.SendLost(link, staged.answers, now, out);
    if (round_.state == RoundState::kPulling && !staged.pull_waits) link->down.SendLost(staged.answers, now, out);
  }
  link->up.SendAllowed(now, out);
  if (staged.full && OwedBy(*link).coverage && mode_.plan->IsCoverage(staged)) {
    if (staged.passed) return MoveToStep(std::max(step().Next(), staged.present), now, out);
    link->up.pace().News(now);
    if (!mode_.plan->TakeCoverage(link->index(), staged, links_.placement().size())) return;
    mode_.plan->FinishCoverage(view_.newest().slots, links_.placement().size());
    round_.state = RoundState::kNone;
    BeginRound(now, out);
  } else if (mode_.plan->ChoosesAtAcknowledgement() && application_ready_ && round_.state == RoundState::kNone) {
    BeginRound(now, out);  // there is room for another round's gradients
  }
}

void Session::On(ShardLink* link, const Error& error, Instant now, Outbox* out) {
  const std::string refusal = "shard " + std::to_string(link->index()) + " refused a ";
  if (error.code == Code::kStale && mode_.plan->IsBehind(error.step)) {
    MoveToStep(error.step, now, out);
  } else if (error.code == Code::kInvalid && (mode_.plan->RefusalsAreFinal() || uploads_.owes_initial(link->index()))) {
    VoidRound();
    Fail(Invalid(refusal + "message: " + Excerpt(error.message, kLongExcerptBytesMax)));
  } else if (error.code == Code::kCorrupt) {
    out->Log(Severity::kWarning,
             refusal + "payload, which is sent again: " + Excerpt(error.message, kLongExcerptBytesMax));
  }
  // The next question finds what is to be sent again, also after other errors (kBusy, a gap in a slot's sequence).
}

void Session::On(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (const std::optional<Step> passed = mode_.plan->PassedBy(weights)) link->up.DropThrough(*passed);
  if (round_.state != RoundState::kPulling || !mode_.plan->Wants(weights)) return;
  const std::optional<std::size_t> index = link->down.MissingIndex(weights, payload.size);
  if (!index) return;
  if (Hash64(payload.bytes()) != weights.payload_hash) {
    const std::string from = std::to_string(weights.block) + " from shard " + std::to_string(link->index());
    return out->Log(Severity::kWarning, "block " + from + " does not match its hash; it is pulled again");
  }
  if (weights.speculative) return link->down.TakeSpeculative(*index, weights.attempt, payload, now, out);
  if (mode_.plan->Note(weights)) {
    round_.stop = true;
    return DropPulls();
  }
  link->down.Arrive(*index, now);
  HandOver(weights.block, weights.version, payload, weights.program_state);
  GoOnPulling(link, now, out);
}

void Session::On(ShardLink* link, const Published& published, Instant now, Outbox* out) {
  if (mode_.plan->pull_kind() == PullKind::kBlocks) return;  // none was requested
  if (published.version.value > 0) link->up.DropThrough(Step{published.version.value - 1});
  uploads_.Published(published.version, &links_);
  if (round_.state != RoundState::kPulling || published.version.value != step().value) return;
  if (mode_.plan->Note(published)) {
    round_.stop = true;
    return DropPulls();
  }
  for (const ShardPull::SpeculativeBlock& arrived : link->down.Publish(published, now)) {
    const BlockIndex block = link->shard.blocks[arrived.index];
    HandOver(block, published.version, arrived.payload, block == 0 ? published.program_state : std::string());
  }
  GoOnPulling(link, now, out);
}

// ---- rounds --------------------------------------------------------------------------------------------------------

void Session::Ready(Instant now, Outbox* out) {
  if (application_ready_) return;  // called twice without work in between
  application_ready_ = true;
  if (ended_ || !view_.known() || context_.generation.value == 0) return;
  if (round_.state == RoundState::kComputing || round_.state == RoundState::kPulling) {
    mode_.plan->RoundOver(round_.slots);
    round_.announced = false;
    round_.state = RoundState::kNone;
  }
  if (round_.state == RoundState::kNone) BeginRound(now, out);
}

void Session::BeginRound(Instant now, Outbox* out) {
  if (view_.newest().phase != JobPhase::kRunning || round_.stop) return;
  if (mode_.plan->MustGive(view_.newest(), context_.generation)) {  // in a round without slots
    ++round_.number;
    round_.slots.clear();
    round_.announced = true;
    round_.state = RoundState::kComputing;
    application_ready_ = false;
    events_.push_back(mode_.plan->MakeGiving(context_.generation, round_.number));
    return;
  }
  const auto oldest = links_.OldestPush();
  WorkPlan::Choice choice = mode_.plan->Choose({view_.newest().slots, oldest && oldest->round < round_.number});
  if (choice.dropped) {
    for (auto& [shard, link] : links_) out->Send(link.shard.peer, link.shard.QueryOf(*choice.dropped));
  }
  if (choice.done) events_.push_back(StepDone{context_.generation, *choice.done});
  switch (choice.next) {
    case WorkPlan::Next::kNothing: return;
    case WorkPlan::Next::kAskCoverage:
      round_.state = RoundState::kAskingCoverage;
      mode_.plan->BeginCoverage(links_.size());
      for (auto& [shard, link] : links_) {
        link.up.pace().Await(now);
        out->Send(link.shard.peer, link.shard.QueryOf(step()));
      }
      return;
    case WorkPlan::Next::kCompute: break;
  }
  round_.slots = std::move(choice.slots);
  ++round_.number;
  if (mode_.plan->weights_complete()) return AnnounceWork();
  round_.state = RoundState::kPulling;
  round_.announced = false;
  mode_.plan->BeginPull();
  links_.BeginPull(Version{step().value}, mode_.plan->pull_kind(), mode_.plan->pull_array(), now, out);
  if (!mode_.plan->follows()) SendBeat(now, out);  // the job waits until this program has a version
}

void Session::AnnounceWork() {
  const WorkPlan& plan = *mode_.plan;
  round_.announced = true;
  application_ready_ = false;
  uploads_.EndInitial(&links_);  // a shard sends weights only after version 0 is on disk
  mode_.plan->WorkAnnounced();
  if (plan.at_end()) round_.slots.clear();
  if (plan.weights_complete()) round_.state = RoundState::kComputing;
  RoundWork work{context_.generation,
                 step(),
                 round_.number,
                 round_.slots,
                 view_.newest().slot_count,
                 plan.made().updates,
                 plan.made().gradient_norm,
                 plan.terms(),
                 mode_.group->members(),
                 mode_.group->rank(),
                 plan.source(),
                 plan.at_end()};
  events_.push_back(WorkReady{std::move(work), plan.loss_scale(), plan.weights_complete()});
}

void Session::HandOver(BlockIndex block, Version version, const Slice& payload, std::string program_state) {
  if (!round_.announced && mode_.plan->AnnouncesEarly()) AnnounceWork();
  events_.push_back(WeightsArrived{block, mode_.plan->pull_array(), version, payload, std::move(program_state)});
}

void Session::GoOnPulling(ShardLink* link, Instant now, Outbox* out) {
  if (links_.Any([](const ShardLink& other) { return !other.down.complete(); })) {
    return link->down.AskForBlocks(now, out);
  }
  if (mode_.plan->NextArray())
    return links_.BeginPull(Version{step().value}, mode_.plan->pull_kind(), mode_.plan->pull_array(), now, out);
  mode_.plan->PullComplete();
  round_.state = RoundState::kComputing;
  if (!round_.announced) AnnounceWork();  // a pull without blocks
}

void Session::VoidRound() {
  if (round_.announced) events_.push_back(WorkVoid{round_.number});
  round_.announced = false;
  DropPulls();
  ++round_.number;  // later calls for the old round are dropped
}

// For a new session with these slots: if this worker has sent, computes or is about to compute something of other
// slots that no shard has for sure, gives up all that the shards have not acknowledged, and begins the step again with
// the question what they have. The new session may push only the slots of its own views. So a sum with other slots
// would not be taken, and what it has of this worker's slots must be computed again.
void Session::StartOverWithin(const std::vector<SlotIndex>& slots) {
  const bool chosen = round_.announced || round_.state == RoundState::kPulling;
  const bool computes = chosen && std::any_of(round_.slots.begin(), round_.slots.end(),
                                              [&](SlotIndex slot) { return !Has(slots, slot); });
  if (!computes && !links_.Any([&](const ShardLink& link) { return link.up.HasBeyond(slots); })) return;
  for (auto& [shard, link] : links_) link.up.DropThrough(Step{UINT64_MAX});
  VoidRound();
  mode_.plan->StartOver();
}

// Gives up the current round, because the job is at `step` and this worker is behind.
void Session::MoveToStep(Step step, Instant now, Outbox* out) {
  VoidRound();
  mode_.plan->MoveToStep(step);
  if (application_ready_) BeginRound(now, out);
}

// ---- gradients -----------------------------------------------------------------------------------------------------

void Session::Push(Gradient gradient, Instant now, Outbox* out) {
  if (gradient.round != round_.number || !round_.announced) return;
  ShardLink* link = links_.OfBlock(gradient.block);
  if (link == nullptr || mode_.plan->HasNode(gradient.block, gradient.node)) return;
  PendingPush push;
  push.header = {context_.generation,
                 link->shard.address.incarnation,
                 context_.session,
                 mode_.plan->PushStep(),
                 gradient.node,
                 gradient.block,
                 gradient.samples,
                 gradient.payload_hash,
                 gradient.node.IsLeaf() ? context_.EncodingOf(gradient.block) : Encoding::kFp32,
                 hyper_parameters_,
                 gradient.loss_scale};
  push.payload = std::move(gradient.payload);
  push.round = gradient.round;
  if (gradient.way == PushWay::kDeferred && deferred_.Defer(gradient.round)) push.way = PushWay::kDeferred;
  link->up.Push(std::move(push), now, out);
}

void Session::ReleasePushes(std::uint64_t round, Instant now, Outbox* out) {
  if (round_.announced) deferred_.Release(round);
  for (auto& [shard, link] : links_) link.up.Release(round, now, out);
}

// If the shards have not acknowledged the deferred pushes for a while, asks the shards about them; after a longer while
// sends the pushes. Each acknowledgement restarts these waits, because sums take long on a slow link.
void Session::CheckDeferredPushes(Instant now, Outbox* out) {
  const bool any = links_.Any([](const ShardLink& link) { return link.up.any_deferred(); });
  const DeferredPushes::Due due = deferred_.Tick(any, now);
  if (due == DeferredPushes::Due::kRelease) ReleasePushes(round_.number, now, out);
  if (due != DeferredPushes::Due::kAsk) return;
  for (auto& [shard, link] : links_) {
    if (!link.up.any_deferred()) continue;
    out->Send(link.shard.peer, link.shard.QueryOf(link.up.newest_step()));
    // On such a query the shard forgets this worker's parked pull, in case the worker has gone back to an earlier step.
    if (round_.state == RoundState::kPulling) link.down.PullAgain(now, out);
  }
}

void Session::EndSlot(std::uint64_t round, SlotReport report, std::string program_state, Instant now, Outbox* out) {
  if (round != round_.number || !round_.announced) return;
  if (!mode_.plan->EndSlot(report.slot)) return;
  ShardLink& link = links_.At(report.slot % static_cast<ShardIndex>(links_.size()));
  link.up.End({context_.generation, link.shard.address.incarnation, context_.session, mode_.plan->PushStep(),
               std::move(report), std::move(program_state)},
              now, out);
}

void Session::UploadVersion(std::uint64_t round, std::vector<Slice> arrays, const std::vector<BlockIndex>& blocks,
                            Instant now, Outbox* out) {
  if (round != round_.number || !round_.announced) return;
  uploads_.BeginVersion(Upload(step(), std::move(arrays)), blocks, &links_, now, out);
}

void Session::Settle(VersionSettled settled, Instant now, Outbox* out) {
  WorkPlan& plan = *mode_.plan;
  const bool is_now = settled.round == round_.number && round_.announced;
  switch (settled.how) {
    case VersionSettled::How::kTaken:  // counts also if the round is over: the program has the version
      if (settled.generation == context_.generation && plan.Took(settled.version) && id().value != 0)
        SendBeat(now, out);
      return;
    case VersionSettled::How::kDeclined:
      if (is_now && round_.slots.empty()) (void)plan.Took(std::nullopt);
      return;
    case VersionSettled::How::kGiven: break;
  }
  if (!is_now || !plan.program_version()) return;
  plan.Gave();
  std::vector<BlockIndex> blocks(context_.catalog->blocks().size());
  std::iota(blocks.begin(), blocks.end(), BlockIndex{0});
  Upload version(*plan.program_version(), std::move(settled.arrays), std::move(settled.program_state));
  uploads_.BeginVersion(std::move(version), blocks, &links_, now, out);
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Session::SendBeat(Instant now, Outbox* out) {
  const WorkerGroup& group = *mode_.group;
  // Deferred pushes do not count as this worker's work, because another worker pushes their sums.
  const bool pushes = links_.Any([](const ShardLink& link) { return link.up.any_ends() || link.up.any_own(); });
  // Whether this worker has done its slots and may be waiting for gradients of its machine, to push their sums.
  const bool awaits_machine =
      group.epoch() != 0 && std::all_of(round_.slots.begin(), round_.slots.end(),
                                        [this](SlotIndex slot) { return mode_.plan->IsDone(slot); });
  Heartbeat beat;
  beat.session = context_.session;
  beat.nonce = options_.nonce;
  beat.generation = context_.generation;
  beat.computing = pushes || (round_.state == RoundState::kComputing && !awaits_machine) ||
                   round_.state == RoundState::kAskingCoverage ||
                   (round_.state == RoundState::kPulling && round_.announced);
  const auto oldest = links_.OldestPush();
  beat.step = oldest ? oldest->step : step();
  beat.view_sequence = view_.sequence();
  beat.barrier = barrier_.number();
  beat.group = group.state();
  beat.group_text = group.text();
  beat.group_epoch = group.epoch();
  beat.spent = options_.time_spent();
  if (mode_.plan->source() != VersionSource::kServers) {
    beat.has_version = mode_.plan->follows();
    beat.loads = !beat.has_version && round_.state != RoundState::kNone;
  }
  for (auto& [shard, link] : links_) {
    const bool silent = now - link.last_message > CoordinatorLine::kSilence + 2 * link.usual();
    if (silent && OwedBy(link).any()) beat.missing.push_back(shard);
  }
  out->Send(options_.coordinator, std::move(beat));
}

void Session::Tick(Instant now, Outbox* out) {
  if (ended_ || left_) return;
  const Instant limit = declaration_ ? declaration_->silence_limit : options_.silence_limit;
  if (coordinator_.Tick(now) >= limit) {
    VoidRound();
    return Fail(Unreachable("no answer from the coordinator for " +
                            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
                            " s; is capstan-server --coordinator running there, and is the address right?"));
  }
  if (id().value == 0) {
    if (coordinator_.JoinIsDue(now)) SendJoin(now, out);
    return;
  }
  if (coordinator_.TakeBeat(now)) SendBeat(now, out);
  CheckDeferredPushes(now, out);
  const bool any_ends = links_.Any([](const ShardLink& link) { return link.up.any_ends(); });
  for (auto& [shard, link] : links_) {
    const Owed owed = OwedBy(link);
    const ShardLink::Question question{step(), owed.coverage, any_ends};
    const bool up = owed.coverage || owed.acknowledgement || link.up.any_ends();
    link.AskWhenDue(&link.up.pace(), up, question, now, out);
    link.AskWhenDue(&link.down.pace(), owed.weights && link.down.awaits(), question, now, out);
  }
}

Session::Owed Session::OwedBy(const ShardLink& link) const {
  Owed owed;
  owed.coverage = round_.state == RoundState::kAskingCoverage && !mode_.plan->coverage().answered(link.index());
  owed.acknowledgement = link.up.any_own() || uploads_.owes(link.index());
  owed.weights = round_.state == RoundState::kPulling && !link.down.complete();
  return owed;
}

std::string Session::WaitingFor() const {
  if (id().value == 0) {
    if (!declaration_) return "the coordinator (no job file yet)";
    return "the coordinator (" + (coordinator_.busy().empty() ? "no answer to our join" : coordinator_.busy()) + ")";
  }
  if (coordinator_.silent())
    return "the coordinator (silent: stopped or unreachable; start it again, or end this program)";
  if (context_.generation.value == 0) return "the job to start";
  std::string who = barrier_.waits() && !barrier_.missing().empty() ? barrier_.missing() + " in a barrier" : "";
  for (const auto& [shard, link] : links_) {
    const Owed owed = OwedBy(link);
    if (!owed.any()) continue;
    const std::string what = !link.knows_us                 ? " (which the coordinator has not told of this worker yet)"
                             : uploads_.owes_initial(shard) ? " (to take the first weights)"
                             : owed.weights                 ? " (for version " + std::to_string(step().value) + ")"
                                                            : " (to answer)";
    who += (who.empty() ? "shard " : ", shard ") + std::to_string(shard) + " at " + link.shard.address.endpoint + what;
  }
  return who;
}

}  // namespace capstan::session
