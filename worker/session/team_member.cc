#include "worker/session/team_member.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/utf8.h"

namespace capstan::session {

void TeamMember::Form(const Wish& wish, SessionId session, Instant now, Outbox* out) {
  if (team_ != 0) former_ = rank_;
  state_ = State::kForming;
  failure_ = {};
  team_ = 0;
  ++forming_;
  rank_ = wish.rank;
  ranks_ = wish.ranks;
  wish_ = wish.number;
  calls_ = 0;
  call_.reset();
  before_.reset();
  missing_.clear();
  Ask(nullptr, false, session, now, out);
}

void TeamMember::Call(std::string what, Slice given, SessionId session, Instant now, Outbox* out) {
  if (state_ == State::kFailed) return Fail(failure_);
  if (state_ != State::kFormed) {  // the application has asked for another team since
    return events_.push_back(TeamFailed{{Code::kStale, "this worker is in no team; form one first"}, wish_});
  }
  before_ = std::exchange(call_, std::nullopt);
  call_.emplace(++calls_, std::move(what), std::move(given), rank_ - 1, ranks_);
  missing_.clear();
  if (ranks_ == 1) {
    while (auto next = call_->Next()) events_.push_back(*std::move(next));
    return;
  }
  Ask(&*call_, false, session, now, out);
  Give(&*call_, session, out);
}

void TeamMember::Stop() {
  state_ = State::kNone;
  call_.reset();
  before_.reset();
}

TeamAsk TeamMember::MakeAsk(SessionId session) const {
  TeamAsk ask;
  ask.session = session;
  ask.nonce = nonce_;
  ask.team = team_;
  ask.forming = forming_;
  ask.rank = rank_;
  ask.ranks = ranks_;
  ask.former = former_;
  return ask;
}

// Sends a question. An answer to it shows which pieces were lost, because messages arrive in order.
void TeamMember::Ask(const TeamExchange* call, bool again, SessionId session, Instant now, Outbox* out) {
  next_ask_ = now + kAskEvery;
  if (session.value == 0) return;  // Rejoined asks
  TeamAsk ask = MakeAsk(session);
  ask.question = ++question_;
  ask.again = again;
  if (call != nullptr) {
    ask.call = call->number();
    ask.what = call->what();
    ask.bytes = call->given().size;
    ask.received = call->received();
    sent_at_question_ = call->sent();
  }
  out->Send(coordinator_, std::move(ask));
}

void TeamMember::Give(TeamExchange* call, SessionId session, Outbox* out) {
  if (session.value == 0) return;
  while (const auto piece = call->NextToGive()) {
    Slice payload = call->PieceOf(*piece);
    const std::uint64_t hash = Hash64(payload.bytes());
    out->Send(coordinator_, TeamGive{session, team_, call->number(), *piece, hash}, std::move(payload));
  }
}

void TeamMember::Rejoined(SessionId session, Instant now, Outbox* out) {
  if (state_ == State::kForming) return Ask(nullptr, false, session, now, out);
  if (state_ != State::kFormed) return;
  introduced_ = false;
  if (!call_ || ranks_ == 1) return Ask(nullptr, false, session, now, out);
  call_->GiveFrom(0, 0);
  Ask(&*call_, false, session, now, out);
  Give(&*call_, session, out);
}

void TeamMember::Tick(SessionId session, Instant now, Outbox* out) {
  const bool asks = waits() || (state_ == State::kFormed && !introduced_);
  if (!asks || session.value == 0 || now < next_ask_) return;
  Ask(state_ == State::kForming || !call_ || ranks_ == 1 ? nullptr : &*call_, false, session, now, out);
}

void TeamMember::Handle(PeerId from, const Message& message, SessionId session, Instant now, Outbox* out) {
  if (from != coordinator_) return;
  if (const auto* state = message.header.As<TeamState>()) Handle(*state, session, now, out);
  if (const auto* piece = message.header.As<TeamPiece>()) Handle(*piece, message.payload, session, now, out);
}

void TeamMember::Handle(const TeamState& state, SessionId session, Instant now, Outbox* out) {
  if (state.forming != forming_ || state_ == State::kNone || state_ == State::kFailed) return;
  if (state.failure != Code::kOk) {
    // A member whose TeamState was lost learns of its team by the team's failure.
    const bool is_ours = state.team == team_ || state_ == State::kForming;
    if (is_ours) Fail({state.failure, Excerpt(state.message, kLongExcerptBytesMax)});
    return;
  }
  if (state_ == State::kForming) {
    if (state.team == 0) {
      missing_ = Excerpt(state.message, kLongExcerptBytesMax);
      events_.push_back(TeamWaits{missing_, 0});
      return;
    }
    if (state.rank == 0 || state.rank > state.ranks || state.ranks > kTeamRanksMax) return;
    state_ = State::kFormed;
    team_ = state.team;
    rank_ = state.rank;
    ranks_ = state.ranks;
    waiting_ = 0;
    introduced_ = true;
    missing_.clear();
    events_.push_back(TeamFormed{rank_ - 1, ranks_, wish_});
    return;
  }
  if (state.team != team_) return;
  if (state.answers != 0 && state.answers == question_) introduced_ = true;
  if (state.waiting != waiting_) {
    waiting_ = state.waiting;
    events_.push_back(TeamWaits{missing_, waiting_});
  }
  for (std::optional<TeamExchange>* call : {&call_, &before_}) {
    if (*call && (*call)->number() == state.call) return Answered(&**call, state, session, now, out);
  }
}

void TeamMember::Answered(TeamExchange* call, const TeamState& state, SessionId session, Instant now, Outbox* out) {
  const bool is_answer = state.answers != 0 && state.answers == question_;
  if (state.wanted) {  // the coordinator has nothing of it: announce it, and give all of it again
    call->GiveFrom(0, state.floor);
    Ask(call, false, session, now, out);
  } else if (is_answer && state.held < sent_at_question_) {
    call->GiveFrom(state.held, state.floor);
  } else {
    call->RaiseFloor(state.floor);
  }
  Give(call, session, out);
  call->Held(std::max({state.held, state.complete, state.floor}));
  // Others wait for pieces of this worker, which does not wait: its question finds those that were lost.
  const bool owes = state.held < capstan::TeamPieces(call->given().size);
  if (!is_answer && !waits() && owes && now >= next_ask_) Ask(call, false, session, now, out);
  if (!call_ || call != &*call_) return;
  while (auto next = call_->Next()) events_.push_back(*std::move(next));
  if (call_->is_complete()) return;
  if (is_answer && !call_->has_received_all() && call_->Lacks(state.complete)) Ask(call, true, session, now, out);
  std::string missing = Excerpt(state.message, kLongExcerptBytesMax);
  if (missing == missing_) return;
  missing_ = std::move(missing);
  events_.push_back(TeamWaits{missing_, waiting_});
}

void TeamMember::Handle(const TeamPiece& piece, const Slice& payload, SessionId session, Instant now, Outbox* out) {
  if (state_ != State::kFormed || piece.team != team_ || !call_ || piece.call != call_->number()) return;
  const std::uint32_t before = call_->received(), every = std::max(TeamWindow(ranks_) / 2, 1U);
  (void)call_->Take(piece, payload);
  while (auto next = call_->Next()) events_.push_back(*std::move(next));
  // The news of what this member has received lets the coordinator drop pieces, and the others give more.
  if (call_->received() / every != before / every || (call_->has_received_all() && call_->received() != before))
    Ask(&*call_, false, session, now, out);
  Give(&*call_, session, out);
}

void TeamMember::Fail(Status status) {
  state_ = State::kFailed;
  failure_ = std::move(status);
  call_.reset();
  before_.reset();
  events_.push_back(TeamFailed{failure_, wish_});
}

std::string TeamMember::WaitingFor() const {
  if (!waits() || missing_.empty()) return "";
  return missing_ + (state_ == State::kForming ? " to form a team" : " in " + call_->what());
}

}  // namespace capstan::session
