// Session's rounds: chooses the next step and slots, and pulls the weights for them.
#include <algorithm>

#include "common/data/encoding.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "worker/session/session.h"
#include "worker/session/shard_link.h"

namespace capstan::client {

void Session::Ready(Instant now, Outbox* out) {
  if (application_ready_) return;  // called twice without work in between
  application_ready_ = true;
  if (ended_ || !view_ || generation_.value == 0) return;
  if (round_state_ == RoundState::kComputing || round_state_ == RoundState::kPulling) {
    // The round's work is done, or was given up. If given up, its slots are chosen again and coverage tells what is
    // missing.
    for (SlotIndex slot : round_slots_) {
      if (Synchronous() && !Has(done_slots_, slot)) coverage_sure_ = false;
    }
    announced_ = false;
    round_state_ = RoundState::kNone;
  }
  if (round_state_ == RoundState::kNone) BeginRound(now, out);
}

void Session::BeginRound(Instant now, Outbox* out) {
  if (view_->phase != JobPhase::kRunning || stop_) return;
  const bool chosen = Synchronous() ? ChooseSyncWork(now, out) : ChooseAsyncWork(now, out);
  if (!chosen) return;
  ++round_;
  if (Synchronous() && weights_complete_) {
    AnnounceWork(loss_scale_);
    return;
  }
  BeginPull(now, out);
}

bool Session::ChooseSyncWork(Instant now, Outbox* out) {
  const std::vector<SlotIndex>& mine = view_->slots;
  if (mine.empty()) return false;
  const bool done = std::all_of(mine.begin(), mine.end(), [&](SlotIndex slot) { return Has(done_slots_, slot); });
  if (done) {  // the step is computed: pull the next step's weights
    if (!coverage_sure_) SayNothingIsHeld(out);
    if (!Replicated()) events_.push_back(StepLeft{generation_, step_});
    step_before_ = StepBefore{std::move(done_slots_), weights_complete_};
    step_ = step_.Next();
    done_slots_.clear();
    covered_.clear();
    covered_ends_.clear();
    weights_complete_ = false;
    coverage_sure_ = true;
  } else if (!coverage_sure_) {
    AskCoverage(now, out);
    return false;
  }
  round_slots_.clear();
  for (SlotIndex slot : mine) {
    if (!Has(done_slots_, slot)) round_slots_.push_back(slot);
  }
  return true;
}

bool Session::ChooseAsyncWork(Instant now, Outbox* out) {
  // Gradients of at most one earlier round may be in flight.
  if (const auto oldest = OldestPush(); oldest && oldest->round < round_) return false;
  std::erase_if(clocks_, [&](const auto& entry) { return !Has(view_->slots, entry.first); });
  std::optional<SlotIndex> slowest;
  for (SlotIndex slot : view_->slots) {
    const auto clock = clocks_.find(slot);
    if (clock == clocks_.end()) {
      AskCoverage(now, out);
      return false;
    }
    if (clock->second < declaration_->steps && (!slowest || clock->second < clocks_[*slowest])) slowest = slot;
  }
  if (!slowest) return false;
  step_ = Step{clocks_[*slowest]};
  round_slots_ = {*slowest};
  return true;
}

// New slots came while we wait for weights. Synchronous: they need work in the step before, whose weights the
// application still has. Otherwise the new slots may include a slower one, and the weights may be waiting for that
// slot.
void Session::ChooseAgain() {
  if (round_state_ != RoundState::kPulling) return;
  if (!Synchronous()) return VoidRound();
  if (announced_ || !step_before_) return;
  round_state_ = RoundState::kNone;
  for (auto& [shard, link] : *links_) link.pull.LetGo();
  step_ = Step{step_.value - 1};
  done_slots_ = std::move(step_before_->done_slots);
  weights_complete_ = step_before_->weights_complete;
  step_before_.reset();
}

// We may have dropped speculative weights of the next step when our slots changed. A shard sends a block only once to a
// waiting session, unless the session asks for coverage in between. Without this query the blocks would come only with
// the retry, a second later.
void Session::SayNothingIsHeld(Outbox* out) {
  for (auto& [shard, link] : *links_) {
    out->Send(link.peer, CoverageQuery{generation_, link.address.incarnation, session_, step_});
  }
}

void Session::AskCoverage(Instant now, Outbox* out) {
  round_state_ = RoundState::kAskingCoverage;
  covered_.clear();
  covered_ends_.clear();
  learned_clocks_.clear();
  for (auto& [shard, link] : *links_) {
    link.covered = false;
    link.up.Await(now);
    out->Send(link.peer, CoverageQuery{generation_, link.address.incarnation, session_, step_});
  }
}

// Every shard has reported its coverage: slots of ours that are complete on all shards need no work.
void Session::FinishCoverage(Instant now, Outbox* out) {
  round_state_ = RoundState::kNone;
  if (Synchronous()) {
    coverage_sure_ = true;
    for (SlotIndex slot : view_->slots) {
      bool whole = Has(covered_ends_, slot);
      for (BlockIndex block = 0; whole && block < placement_.size(); ++block) whole = Covered(block, {slot, slot + 1});
      if (whole && !Has(done_slots_, slot)) done_slots_.push_back(slot);
    }
  }
  BeginRound(now, out);
}

bool Session::Covered(BlockIndex block, Node node) const {
  return block < covered_.size() &&
         std::any_of(covered_[block].begin(), covered_[block].end(), [&](Node held) { return held.Contains(node); });
}

void Session::BeginPull(Instant now, Outbox* out) {
  round_state_ = RoundState::kPulling;
  announced_ = false;
  for (auto& [shard, link] : *links_) {
    if (Replicated()) {
      link.pull.BeginBare();
      SendPull(&link, {}, now, out);
    } else {
      link.pull.Begin(link.blocks.size(), Synchronous());
      AskForBlocks(&link, now, out);
    }
  }
}

// More blocks in forward order, as many as the window and the line have room for. If the previous pull is still parked
// at the shard, the new one replaces it and names all requested blocks.
std::vector<std::size_t> Session::MoreBlocks(ShardLink* link, Instant now) {
  const auto ask = [&](std::size_t index) -> std::optional<LinePace::Sent> {
    const Block& block = catalog_->blocks()[link->blocks[index]];
    const std::uint64_t bytes = block.count * BytesPerNumber(block.EncodingIn(declaration_->encoding));
    if (!link->down.HasRoom(bytes)) return std::nullopt;
    return link->down.Send(++link->sent, bytes, now);
  };
  std::vector<std::size_t> more = link->pull.AskFor(kFirstPull, kPullWindow, ask);
  return link->pull.waits() ? link->pull.Asked() : more;
}

void Session::AskForBlocks(ShardLink* link, Instant now, Outbox* out) {
  const std::vector<std::size_t> more = MoreBlocks(link, now);
  if (!more.empty()) SendPull(link, more, now, out);
}

void Session::SendPull(ShardLink* link, const std::vector<std::size_t>& wanted, Instant now, Outbox* out) {
  Pull pull{generation_, link->address.incarnation, session_, Version{step_.value}, {}, 0, declaration_->encoding, {}};
  for (std::size_t index : wanted) pull.blocks.push_back(link->blocks[index]);
  for (std::size_t index : link->pull.Ahead()) pull.ahead.push_back(link->blocks[index]);
  pull.follows = link->pull.follows();
  link->pulled = ++link->sent;
  link->down.Await(now);
  out->Send(link->peer, std::move(pull));
}

bool Session::PullComplete() const {
  return std::all_of(links_->begin(), links_->end(), [](const auto& entry) { return entry.second.pull.complete(); });
}

void Session::AnnounceWork(float loss_scale) {
  announced_ = true;
  ForgetOwed(true);
  first_weights_.LetGo();  // a shard sends weights only after version 0 is on disk
  step_before_.reset();
  application_ready_ = false;
  if (weights_complete_) round_state_ = RoundState::kComputing;
  Work work{generation_,       step_,         round_, round_slots_, view_->slot_count, updates_, terms_,
            group_->members(), group_->rank()};
  events_.push_back(WorkReady{std::move(work), loss_scale, weights_complete_});
}

// The job is at `step` and we are behind: give up the current round.
void Session::MoveToStep(Step step, Instant now, Outbox* out) {
  VoidRound();
  step_before_.reset();
  step_ = step;
  done_slots_.clear();
  weights_complete_ = false;
  coverage_sure_ = false;
  if (application_ready_) BeginRound(now, out);
}

}  // namespace capstan::client
