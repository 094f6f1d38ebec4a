#include "worker/session/session.h"

#include <algorithm>
#include <type_traits>

#include "common/base/hash.h"
#include "common/wire/messages/assign.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "worker/session/pending_end.h"
#include "worker/session/shard_link.h"

namespace capstan::client {

namespace {

// The group that a job of this mode has its workers form.
std::unique_ptr<WorkerGroup> MakeGroup(Mode mode) {
  if (WorkersUpdate(mode)) return std::make_unique<AllReduceGroup>();
  return std::make_unique<MachineGroup>();
}

// Whether the view is well formed: slots ascend and belong to the job, shards are numbered 0, 1, 2 and so on.
bool IsSound(const View& view) {
  if (view.slot_count > kSlotsMax) return false;
  for (std::size_t i = 0; i < view.slots.size(); ++i) {
    if (view.slots[i] >= view.slot_count || (i > 0 && view.slots[i] <= view.slots[i - 1])) return false;
  }
  for (std::size_t i = 0; i < view.shards.size(); ++i) {
    if (view.shards[i].shard != i) return false;
  }
  return true;
}

}  // namespace

Session::Session(SessionOptions options)
    : options_(std::move(options)), links_(std::make_unique<ShardLinks>()), coordinator_(options_.nonce) {}
Session::~Session() = default;

bool Session::Has(const std::vector<SlotIndex>& slots, SlotIndex slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

std::vector<Session::Event> Session::TakeEvents() { return std::exchange(events_, {}); }

void Session::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  if (ended_) return;
  if (from == options_.coordinator) {
    coordinator_.MessageArrived(now);
    if (const auto* view = message.header.As<View>()) On(*view, now, out);
    if (const auto* error = message.header.As<Error>()) On(from, *error, now, out);
    return;
  }
  ShardLink* link = LinkOf(from);
  if (link == nullptr) return;
  message.header.VisitAs<Staged, Weights, Assigned, Published, Error>([&](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    // Sent by an older or newer start of the shard: the next view will name the right one.
    if (body.incarnation != link->address.incarnation) return;
    link->last_heard = now;
    if constexpr (std::is_same_v<Body, Error>) {
      OnShardError(link, body, now, out);
    } else if (body.generation == generation_) {
      if constexpr (std::is_same_v<Body, Weights>) {
        On(link, body, message.payload, now, out);
      } else {
        On(link, body, now, out);
      }
    }
  });
}

std::optional<PendingRound> Session::OldestPush() const {
  std::optional<PendingRound> oldest;
  for (const auto& [shard, link] : *links_) {
    const auto own = link.pushes.oldest();
    if (own && (!oldest || own->round < oldest->round)) oldest = own;
  }
  return oldest;
}

Session::ShardLink* Session::LinkOf(PeerId peer) {
  const auto found = links_->by_peer.find(peer);
  return found == links_->by_peer.end() ? nullptr : found->second;
}

// ---- the coordinator -----------------------------------------------------------------------------------------------

void Session::Declare(Declaration declaration, Instant now, Outbox* out) {
  Result<Catalog> catalog = Catalog::Create(declaration.catalog, options_.block_elements);
  if (!catalog.ok()) {
    ended_ = true;
    events_.push_back(Failed{catalog.status()});
    return;
  }
  catalog_ = std::make_unique<Catalog>(std::move(catalog).value());
  first_weights_.Bring(std::move(declaration.given));
  declaration_ = std::move(declaration);
  group_ = MakeGroup(declaration_->mode);
  coordinator_.RestartJoin();
  SendJoin(now, out);
}

void Session::SendJoin(Instant now, Outbox* out) {
  coordinator_.JoinSent(now);
  Join join;
  join.job = job_;
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

void Session::On(PeerId, const Error& error, Instant now, Outbox* out) {
  if (error.code == Code::kRefused) {
    ended_ = true;
    events_.push_back(Failed{Refused("the coordinator refuses this worker: " + error.message)});
  } else if (error.code == Code::kStale) {  // the coordinator restarted and does not know our session
    session_ = {};
    coordinator_.RestartJoin();
    SendJoin(now, out);
  }
}

void Session::On(const View& view, Instant now, Outbox* out) {
  if (view_ && (view.term < view_->term || (view.term == view_->term && view.sequence < view_->sequence))) return;
  if (!view.job_file.empty()) {
    job_ = view.job;
    if (!declaration_) events_.push_back(JobFile{view.job_file, view.job});
    return;
  }
  if (!declaration_ || view.session.value == 0 || !IsSound(view)) return;
  if (view.session != session_) {
    session_ = view.session;
    events_.push_back(Joined{session_});
  }
  const std::vector<SlotIndex> before = view_ ? view_->slots : std::vector<SlotIndex>();
  const bool had_view = view_ != nullptr;
  if (!view.notice.empty() && (!had_view || view.notice != view_->notice)) out->Say(Severity::kWarning, view.notice);
  view_ = std::make_unique<View>(view);
  // A group keeps its slots for its generation: new slots come only with another generation.
  if (Replicated() && had_view && view.generation == generation_) view_->slots = before;
  slots_changed_ = slots_changed_ || (had_view && view_->slots != before);
  if (barrier_.waits()) FollowBarrier(view, now, out);
  if (view.phase == JobPhase::kDone || view.phase == JobPhase::kFailed) {
    VoidRound();
    ended_ = true;
    Leave("the job is over", out);  // the coordinator need not wait for this worker
    if (view.phase == JobPhase::kDone) events_.push_back(Finished{});
    if (view.phase == JobPhase::kFailed) events_.push_back(Failed{Refused("the job failed: " + view.message)});
    return;
  }
  if (view.phase != JobPhase::kRunning) return;
  if (view.generation > generation_) {
    if (view.shards.empty()) return;  // meant for this worker's earlier session; our next Beat names our generation
    EnterGeneration(view, now, out);
    if (ended_) return;
  }
  FollowGroup(now, out);
  if (view.founder && view.generation == generation_) GiveFirstWeights(now, out);
  if (ended_) return;
  if (std::exchange(slots_changed_, false)) {
    coverage_sure_ = false;
    ChooseAgain();
  }
  // A worker that had no slots took no part in recent steps; it begins at the job's current step.
  const bool idle = before.empty() && round_state_ == RoundState::kNone && view.generation == generation_;
  if (Synchronous() && idle && view.step > step_) MoveToStep(view.step, now, out);
  if (application_ready_ && round_state_ == RoundState::kNone) BeginRound(now, out);
}

void Session::Barrier(Instant now, Outbox* out) {
  if (ended_ || left_ || barrier_.waits()) return;
  barrier_.Begin();
  if (joined() && view_) FollowBarrier(*view_, now, out);
}

void Session::FollowBarrier(const View& view, Instant now, Outbox* out) {
  BarrierWait::News news = barrier_.Follow(view);
  if (news.event) events_.push_back(*std::move(news.event));
  if (news.numbered) SendBeat(now, out);
}

// When the machine's group is over, each member sends the pushes that it held for the group.
void Session::FollowGroup(Instant now, Outbox* out) {
  WorkerGroup::News news = group_->Follow(*view_, session_, generation_);
  if (news.replaced) ReleasePushes(round_, now, out);
  if (news.event) events_.push_back(*std::move(news.event));
}

void Session::EnterGeneration(const View& view, Instant now, Outbox* out) {
  VoidRound();
  generation_ = view.generation;
  step_ = view.step;
  ends_.clear();
  done_slots_.clear();
  clocks_.clear();
  step_before_.reset();
  coverage_sure_ = weights_complete_ = stop_ = false;
  first_weights_.Forget();
  made_ = {};
  group_->EnterGeneration();
  for (const auto& entry : *links_) {
    const ShardLink& link = entry.second;
    const bool stays = std::any_of(view.shards.begin(), view.shards.end(), [&](const ShardAddress& address) {
      return address.endpoint == link.address.endpoint;
    });
    if (!stays) options_.disconnect(link.peer);
  }
  links_->by_peer.clear();
  links_->clear();
  unstaged_ = 0;
  placement_ = PlaceBlocks(*catalog_, static_cast<std::uint32_t>(view.shards.size()));
  for (const ShardAddress& address : view.shards) {
    const Result<PeerId> peer = options_.connect(address.endpoint);
    if (!peer.ok()) {
      ended_ = true;
      const std::string shard = "shard " + std::to_string(address.shard) + " at " + address.endpoint;
      Leave(shard + " cannot be connected to", out);
      events_.push_back(Failed{{peer.status().code(), shard + " cannot be connected to: " + peer.status().message()}});
      return;
    }
    ShardLink& link =
        links_->try_emplace(address.shard, options_.nonce ^ (2 * address.shard), options_.first_retry).first->second;
    link.address = address;
    link.peer = *peer;
    links_->by_peer.emplace(link.peer, &link);
    link.last_heard = now;
  }
  position_in_shard_.assign(placement_.size(), 0);
  for (BlockIndex block = 0; block < placement_.size(); ++block) {
    links_->at(placement_[block]).blocks.push_back(block);
  }
  for (auto& [shard, link] : *links_) {
    const std::size_t count = link.blocks.size();
    for (std::size_t i = 0; i < count; ++i) position_in_shard_[link.blocks[i]] = count - 1 - i;
  }
}

void Session::VoidRound() {
  if (announced_) events_.push_back(WorkVoid{round_});
  announced_ = false;
  round_state_ = RoundState::kNone;
  for (auto& [shard, link] : *links_) link.pull.LetGo();
  ++round_;  // later calls for the old round are dropped
}

// ---- first weights -------------------------------------------------------------------------------------------------

// The job takes this worker's first weights. A shard acknowledges again what it has already received in this
// generation.
void Session::GiveFirstWeights(Instant now, Outbox* out) {
  if (first_weights_.generation() == generation_) return;
  if (!first_weights_.here()) {
    ended_ = true;
    VoidRound();
    Leave("it has no first weights to give", out);
    events_.push_back(
        Failed{Refused("the job asks this worker for the first weights, and it has none any more: the job "
                       "was taken back to its beginning; start this worker again")});
    return;
  }
  first_weights_.Begin(generation_, *catalog_, placement_);
  for (auto& [shard, link] : *links_) SendFirstWeights(&link, now, out);
}

void Session::SendFirstWeights(ShardLink* link, Instant now, Outbox* out) {
  first_weights_.SendNew(link->address.shard, *catalog_, [&](BlockIndex block, const Slice& payload) {
    if (!link->up.HasRoom(payload.size)) return std::optional<LinePace::Sent>();
    const Assign assign{generation_, link->address.incarnation, session_, block, Hash64(payload.bytes())};
    out->Send(link->peer, assign, payload);
    return std::optional(link->up.Send(++link->sent, payload.size, now));
  });
}

// Stops waiting for acknowledgements of first weights, or else of uploaded blocks: none is needed any more.
void Session::ForgetOwed(bool first_weights) {
  for (auto& [shard, link] : *links_) {
    first_weights ? first_weights_.Lost(shard, UINT64_MAX, &link.up) : made_.owed.Lost(shard, UINT64_MAX, &link.up);
  }
}

void Session::On(ShardLink* link, const Assigned& assigned, Instant now, Outbox* out) {
  if (Replicated()) {
    if (assigned.step != made_.step) return;
    if (made_.owed.Acknowledge(link->address.shard, assigned.blocks, now, &link->up)) SendMade(link, now, out);
  } else if (first_weights_.Acknowledge(link->address.shard, assigned.blocks, now, &link->up)) {
    SendFirstWeights(link, now, out);
  }
}

// ---- shards --------------------------------------------------------------------------------------------------------

void Session::On(ShardLink* link, const Staged& staged, Instant now, Outbox* out) {
  SettleStaged(link, staged, now);
  if (staged.passed) DropPassed(link->address.shard, staged.step);
  TakeCredit(link, staged, now);
  if (staged.answers != 0) TakeAnswer(link, staged, now, out);
  SendAllowed(link, now, out);
  if (staged.full && round_state_ == RoundState::kAskingCoverage && (!Synchronous() || staged.step == step_) &&
      !link->covered) {
    if (staged.passed) {
      MoveToStep(std::max(step_.Next(), staged.present), now, out);
      return;
    }
    link->covered = true;
    link->up.News(now);
    if (!staged.held.empty()) covered_.resize(placement_.size());
    for (const Staged::Entry& entry : staged.held) {
      if (entry.block < covered_.size()) covered_[entry.block].push_back(entry.node);
    }
    covered_ends_.insert(covered_ends_.end(), staged.ended.begin(), staged.ended.end());
    for (SlotIndex slot = 0; slot < staged.clocks.size(); ++slot) {
      const auto [clock, added] = learned_clocks_.try_emplace(slot, staged.clocks[slot]);
      if (!added) clock->second = std::min(clock->second, staged.clocks[slot]);
    }
    const bool all =
        std::all_of(links_->begin(), links_->end(), [](const auto& entry) { return entry.second.covered; });
    if (!all) return;
    for (const auto& [slot, clock] : learned_clocks_) {
      if (Has(view_->slots, slot)) clocks_.try_emplace(slot, clock);
    }
    learned_clocks_.clear();
    FinishCoverage(now, out);
  } else if (!Synchronous() && application_ready_ && round_state_ == RoundState::kNone) {
    BeginRound(now, out);  // there is room for another round's gradients
  }
}

bool Session::IsOn(const ShardLink& link, BlockIndex block) const {
  return block < placement_.size() && placement_[block] == link.address.shard;
}

void Session::SettleStaged(ShardLink* link, const Staged& staged, Instant now) {
  bool news = false;
  const std::size_t before = link->pushes.size();
  for (const Staged::Entry& entry : staged.held) {
    if (!IsOn(*link, entry.block)) continue;
    news |= link->pushes.Settle(position_in_shard_[entry.block], staged.step, entry.node, now, &link->up);
  }
  unstaged_ -= before - link->pushes.size();
  if (news) held_.Acknowledged(now);
  for (SlotIndex slot : staged.ended) {
    news |= std::erase_if(ends_, [&](const PendingEnd& end) {
              return end.header.step == staged.step && end.header.report.slot == slot;
            }) > 0;
  }
  if (news) link->up.News(now);
}

void Session::TakeCredit(ShardLink* link, const Staged& staged, Instant now) {
  if (!Synchronous()) {
    link->credit = std::max(staged.credit, 1U);
  } else if (staged.step == link->credit_step && staged.credit > link->credit) {
    link->credit = staged.credit;
    link->up.News(now);
  } else if (staged.step == link->credit_step && staged.credit < link->credit) {
    // Our first guess was above the shard's window. Pushes that it turned away are sent again as the window moves.
    link->pushes.TurnedAway(staged.credit, &link->up);
    link->credit = staged.credit;
  }
}

// The shard has handled everything sent before the question, so a message without an answer by now is lost.
void Session::TakeAnswer(ShardLink* link, const Staged& staged, Instant now, Outbox* out) {
  const std::uint64_t question = staged.answers;
  const ShardIndex shard = link->address.shard;
  for (const StagedNode& entry : staged.missing) {
    if (!IsOn(*link, entry.block)) continue;
    link->pushes.Lost(position_in_shard_[entry.block], staged.step, entry.node, question, &link->up);
  }
  for (PendingEnd& end : ends_) {
    if (end.shard != shard || end.number >= question) continue;
    end.number = ++link->sent;
    out->Send(link->peer, end.header);
  }
  first_weights_.Lost(shard, question, &link->up);
  SendFirstWeights(link, now, out);
  made_.owed.Lost(shard, question, &link->up);
  SendMade(link, now, out);
  if (round_state_ != RoundState::kPulling || staged.pull_waits) return;
  const bool pull_lost = link->pull.follows() && link->pulled < question;
  if (!link->pull.Lost(question) && !pull_lost) return;
  const std::vector<std::size_t> more = MoreBlocks(link, now);
  if (!more.empty() || pull_lost) SendPull(link, more, now, out);
}

// `shard` has published the version that step `passed` made: it needs no pushes of that step or earlier ones.
void Session::DropPassed(ShardIndex shard, Step passed) {
  ShardLink& link = links_->at(shard);
  const std::size_t before = link.pushes.size();
  link.pushes.DropThrough(passed, &link.up);
  unstaged_ -= before - link.pushes.size();
  std::erase_if(ends_, [&](const PendingEnd& end) { return end.shard == shard && end.header.step <= passed; });
}

void Session::OnShardError(ShardLink* link, const Error& error, Instant now, Outbox* out) {
  if (error.generation != generation_) return;  // kStale or kBusy around a recovery: the next view decides
  if (error.code == Code::kStale && Synchronous() && error.step > step_) {
    MoveToStep(error.step, now, out);
  } else if (error.code == Code::kInvalid && (Synchronous() || first_weights_.owes(link->address.shard))) {
    ended_ = true;
    VoidRound();
    events_.push_back(
        Failed{Invalid("shard " + std::to_string(link->address.shard) + " refused a message: " + error.message)});
  }
  // kBusy, kCorrupt, or a gap in an async slot's sequence: the next question finds the push missing and it is sent
  // again.
}

// ---- gradients -----------------------------------------------------------------------------------------------------

void Session::Push(std::uint64_t round, Node node, BlockIndex block, std::uint64_t samples, float loss_scale,
                   std::uint64_t payload_hash, Slice payload, PushWay way, Instant now, Outbox* out) {
  if (round != round_ || !announced_ || block >= placement_.size()) return;
  if (Synchronous() && Covered(block, node)) return;
  const ShardIndex shard = placement_[block];
  ShardLink& link = links_->at(shard);
  PendingPush push;
  const Encoding encoding = node.IsLeaf() ? EncodingOf(block) : Encoding::kFp32;
  push.header = {generation_, link.address.incarnation, session_,  PushStep(), node, block, samples, payload_hash,
                 encoding,    hyper_parameters_,        loss_scale};
  push.payload = std::move(payload);
  push.round = round;
  if (way == PushWay::kHeld && held_.Hold(round)) push.way = way;
  if (link.credit_step != push.header.step || link.credit == 0) {
    if (Synchronous() || link.credit == 0) link.credit = options_.initial_credit;
    link.credit_step = push.header.step;
  }
  link.pushes.Add(position_in_shard_[block], std::move(push));
  ++unstaged_;
  SendAllowed(&link, now, out);
}

void Session::EndSlot(std::uint64_t round, SlotReport report, std::string program_state, Instant now, Outbox* out) {
  if (round != round_ || !announced_) return;
  if (!Synchronous()) clocks_[report.slot] = PushStep().value;
  if (Synchronous() && !Has(done_slots_, report.slot)) done_slots_.push_back(report.slot);
  if (Synchronous() && Has(covered_ends_, report.slot)) return;
  const ShardIndex shard = report.slot % static_cast<ShardIndex>(links_->size());
  ShardLink& link = links_->at(shard);
  PendingEnd end{
      {generation_, link.address.incarnation, session_, PushStep(), std::move(report), std::move(program_state)},
      shard,
      ++link.sent};
  link.up.Await(now);
  out->Send(link.peer, end.header);
  ends_.push_back(std::move(end));
}

// Sends the pushes that the shard's credit and the line allow.
void Session::SendAllowed(ShardLink* link, Instant now, Outbox* out) {
  link->pushes.SendNew(Synchronous() ? link->credit : SIZE_MAX, [&](PendingPush* push) {
    const bool room = Synchronous() || link->up.count() < link->credit;
    if (!room || !link->up.HasRoom(push->payload.size)) return false;
    push->sent = link->up.Send(++link->sent, push->payload.size, now);
    out->Send(link->peer, push->header, push->payload);
    return true;
  });
  if (link->pushes.any_unsent()) link->up.Await(now);
}

void Session::Leave(const std::string& reason, Outbox* out) {
  if (session_.value != 0) out->Send(options_.coordinator, capstan::Leave{session_, options_.nonce, reason});
  left_ = true;
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Session::SendBeat(Instant now, Outbox* out) {
  Beat beat;
  beat.session = session_;
  beat.nonce = options_.nonce;
  beat.generation = generation_;
  beat.computing = !AllStaged() || (round_state_ == RoundState::kComputing && !AwaitsMachine()) ||
                   round_state_ == RoundState::kAskingCoverage || (round_state_ == RoundState::kPulling && announced_);
  const auto oldest = OldestPush();
  beat.step = oldest ? oldest->step : step_;
  beat.view_sequence = view_ ? view_->sequence : 0;
  beat.barrier = barrier_.number();
  beat.group = group_->state();
  beat.group_text = group_->text();
  beat.group_epoch = group_->epoch();
  for (const auto& [shard, link] : *links_) {
    const Instant usual = 2 * std::max(link.up.usual(), link.down.usual());
    if (AwaitsShard(link) && now - link.last_heard > CoordinatorLine::kSilence + usual) beat.missing.push_back(shard);
  }
  out->Send(options_.coordinator, std::move(beat));
}

void Session::Tick(Instant now, Outbox* out) {
  if (ended_ || left_) return;
  const Instant limit = declaration_ ? declaration_->silence_limit : options_.silence_limit;
  if (coordinator_.Tick(now) >= limit) {
    ended_ = true;
    VoidRound();
    events_.push_back(
        Failed{Unreachable("no answer from the coordinator for " +
                           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit).count()) +
                           " s; is capstan-server --coordinator running there, and is the address right?")});
    return;
  }
  if (session_.value == 0) {
    if (coordinator_.JoinIsDue(now)) SendJoin(now, out);
    return;
  }
  if (coordinator_.TakeBeat(now)) SendBeat(now, out);
  LookAfterHeld(now, out);
  for (auto& [shard, link] : *links_) {
    const bool ends = std::any_of(ends_.begin(), ends_.end(), [&](const auto& end) { return end.shard == shard; });
    AskWhenDue(&link, &link.up, ends || AwaitsAcknowledgement(link), now, out);
    AskWhenDue(&link, &link.down, round_state_ == RoundState::kPulling && link.pull.awaits(), now, out);
  }
}

// Nothing is sent twice only because it took long. Instead a question follows it on the same line, and the answer says
// what is lost. The answer also distinguishes a shard that waits for a version from one that is unreachable.
void Session::AskWhenDue(ShardLink* link, LinePace* line, bool awaited, Instant now, Outbox* out) {
  if (!awaited) return line->Rest();
  line->Await(now);
  if (!line->Due(now)) return;
  line->Asked(now);
  CoverageQuery query{generation_, link->address.incarnation, session_, step_, 0, {}};
  std::map<Step, std::vector<StagedNode>> unanswered = link->pushes.Unanswered();
  if (round_state_ == RoundState::kAskingCoverage && !link->covered) {
    out->Send(link->peer, query);
    if (unanswered.empty() && ends_.empty()) return;
  }
  query.question = ++link->sent;
  // Any answer carries the credit.
  if (unanswered.empty()) unanswered[link->pushes.empty() ? step_ : link->credit_step];
  for (auto& [step, nodes] : unanswered) {
    query.step = step;
    query.nodes = std::move(nodes);
    out->Send(link->peer, query);
  }
}

bool Session::AwaitsAcknowledgement(const ShardLink& link) const {
  if (round_state_ == RoundState::kAskingCoverage && !link.covered) return true;
  return link.pushes.any_own() || first_weights_.owes(link.address.shard) || made_.owed.owes(link.address.shard);
}

bool Session::AwaitsShard(const ShardLink& link) const { return AwaitsWeights(link) || AwaitsAcknowledgement(link); }

bool Session::AwaitsWeights(const ShardLink& link) const {
  return round_state_ == RoundState::kPulling && !link.pull.complete();
}

std::string Session::WaitingFor() const {
  if (session_.value == 0) {
    return declaration_ ? "the coordinator (no answer to our join)" : "the coordinator (no job file yet)";
  }
  if (coordinator_.silent()) {
    return "the coordinator (silent: stopped or unreachable; start it again, or end this program)";
  }
  if (generation_.value == 0) return "the job to start";
  std::string who = barrier_.waits() && !barrier_.missing().empty() ? barrier_.missing() + " in a barrier" : "";
  for (const auto& [shard, link] : *links_) {
    if (!AwaitsShard(link)) continue;
    const std::string what = first_weights_.owes(shard) ? " (to take the first weights)"
                             : AwaitsWeights(link)      ? " (for version " + std::to_string(step_.value) + ")"
                                                        : " (to answer)";
    who += (who.empty() ? "shard " : ", shard ") + std::to_string(shard) + " at " + link.address.endpoint + what;
  }
  return who;
}

}  // namespace capstan::client
