#include "server/coordinator/teams.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/natural_order.h"

namespace capstan::server {

namespace {

constexpr int kTermShift = 32;  // a team's id has the coordinator's term above, and a count of teams below

std::string RankText(std::uint32_t rank, std::size_t ranks) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
}

TeamState Refusal(const TeamAsk& ask, Status status) {
  TeamState state;
  state.team = ask.team;
  state.forming = ask.forming;
  state.answers = ask.question;
  state.failure = status.code();
  state.message = status.message();
  return state;
}

}  // namespace

bool Teams::Handle(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out) {
  if (ask.team != 0) return AskInTeam(from, ask, facts, out);
  AskToForm(from, ask, facts, out);
  return false;
}

// ---- forming -------------------------------------------------------------------------------------------------------

void Teams::AskToForm(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out) {
  if (team_) {
    for (std::uint32_t rank = 0; rank < team_->members.size(); ++rank) {
      const Member& member = team_->members[rank];
      if (member.nonce != from.nonce || member.forming < ask.forming) continue;
      // The answer to an earlier question was lost, or this is a late copy of that question.
      if (member.forming == ask.forming) SendTo(rank, StateFor(rank, nullptr), facts, out);
      return;
    }
  }
  const auto refuse = [&](const std::string& why) {
    wishes_.erase(from.session);
    const std::string rank = ask.rank == 0 ? "asks for any rank" : "asks to be " + RankText(ask.rank - 1, ask.ranks);
    out->Send(from.peer, Refusal(ask, Invalid("\"" + from.name + "\" " + rank + " of a team" + why)));
  };
  if ((ask.rank == 0) != (ask.ranks == 0) || ask.rank > ask.ranks)
    return refuse("; ranks are counted from 0 and below their number");
  if (ask.ranks > kTeamRanksMax)
    return refuse(", and a team has at most " + std::to_string(kTeamRanksMax) + " members");
  const auto known = wishes_.find(from.session);
  if (known != wishes_.end() && known->second.forming > ask.forming) return;  // a late copy
  for (const auto& [session, wish] : wishes_) {
    if (session == from.session || facts.members.Find(session) == nullptr) continue;
    if (wish.ranks != ask.ranks) {
      return refuse(", and \"" + wish.name + "\" for " +
                    (wish.ranks == 0 ? "any rank" : "one of " + std::to_string(wish.ranks)) +
                    "; all members give the same number of ranks, or none");
    }
    if (ask.rank != 0 && wish.rank == ask.rank)
      return refuse(", and so does \"" + wish.name + "\"; give each process another rank");
  }
  const bool is_new = known == wishes_.end() || known->second.forming != ask.forming;
  wishes_[from.session] = {from.name, ask.forming, ask.rank, ask.ranks, ask.former};
  FormWhenComplete(facts, out);
  if (!wishes_.contains(from.session)) return;
  TeamState state;
  state.forming = ask.forming;
  state.answers = ask.question;
  state.message = MissingToForm(facts);
  out->Send(from.peer, std::move(state));
  if (is_new && team_) SendToAll(nullptr, facts, out);  // the present team learns that a worker waits
}

// Names the workers for which a team waits that is to be formed; empty: none.
std::string Teams::MissingToForm(const Facts& facts) const {
  std::string names;
  std::size_t missing = 0;
  const auto add = [&](const std::string& name) {
    if (++missing <= kNamedMax) AddName(&names, name);
  };
  const std::uint32_t ranks = wishes_.begin()->second.ranks;
  for (std::uint32_t rank = 1; rank <= ranks; ++rank) {
    const bool here =
        std::any_of(wishes_.begin(), wishes_.end(), [rank](const auto& e) { return e.second.rank == rank; });
    if (!here) add(RankText(rank - 1, ranks) + " (has not asked for a team)");
  }
  if (ranks == 0) {
    for (const auto& [joined, worker] : facts.members.workers()) {
      if (!wishes_.contains(worker.session)) add(worker.name);
    }
    const bool again =
        team_ || std::any_of(wishes_.begin(), wishes_.end(), [](const auto& e) { return e.second.former != 0; });
    const std::size_t wanted = again ? facts.again : facts.first;
    if (facts.members.size() < wanted) add(Count(wanted - facts.members.size(), "worker") + " (not joined)");
  }
  if (missing > kNamedMax) AddName(&names, std::to_string(missing - kNamedMax) + " more");
  return names;
}

void Teams::FormWhenComplete(const Facts& facts, Outbox* out) {
  std::erase_if(wishes_, [&](const auto& entry) { return facts.members.Find(entry.first) == nullptr; });
  if (wishes_.empty() || !MissingToForm(facts).empty()) return;
  if (wishes_.size() > kTeamRanksMax) {
    const Status status = Invalid("a team has at most " + std::to_string(kTeamRanksMax) + " members, and " +
                                  std::to_string(wishes_.size()) + " workers ask for one");
    for (const auto& [session, wish] : wishes_) {
      TeamAsk ask;
      ask.forming = wish.forming;
      out->Send(facts.members.Find(session)->peer, Refusal(ask, status));
    }
    return wishes_.clear();
  }
  // Given ranks decide. Otherwise members of the team before come first, in its order, because they have its state.
  std::vector<std::pair<SessionId, Wish>> order(wishes_.begin(), wishes_.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const Wish &x = a.second, &y = b.second;
    if (x.rank != y.rank) return x.rank < y.rank;
    const std::uint32_t last = kTeamRanksMax + 1;
    const std::uint32_t before_x = x.former == 0 ? last : x.former, before_y = y.former == 0 ? last : y.former;
    if (before_x != before_y) return before_x < before_y;
    return ComesBefore(x.name, y.name);
  });
  Team team;
  team.id = (facts.term.value << kTermShift) + ++formed_;
  for (const auto& [session, wish] : order) {
    team.members.push_back({session, wish.name, facts.members.Find(session)->nonce, wish.forming, 0});
  }
  wishes_.clear();
  team_ = std::move(team);
  out->Log(Severity::kInfo, "a team of " + std::to_string(team_->members.size()) + " for collective calls has formed");
  SendToAll(nullptr, facts, out);
}

// ---- calls ---------------------------------------------------------------------------------------------------------

// Takes up a team that an earlier coordinator has formed.
bool Teams::Adopt(const TeamAsk& ask, const Facts& facts) {
  if (team_ && team_->id >= ask.team) return false;
  if (ask.team >> kTermShift >= facts.term.value) return false;  // this coordinator would know it
  if (ask.ranks == 0 || ask.ranks > kTeamRanksMax) return false;
  team_ = Team();
  team_->id = ask.team;
  team_->members.resize(ask.ranks);
  return true;
}

bool Teams::AskInTeam(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out) {
  const auto refuse = [&](const std::string& why) {
    out->Send(from.peer, Refusal(ask, {Code::kStale, why + "; form another team"}));
    return false;
  };
  const bool known = (team_ && team_->id == ask.team) || Adopt(ask, facts);
  if (!known) return refuse("the team is over, because its workers have formed another");
  if (ask.rank == 0 || ask.rank > team_->members.size() || ask.ranks != team_->members.size())
    return refuse("no team has " + RankText(ask.rank - 1, ask.ranks));
  const std::uint32_t rank = ask.rank - 1;
  Member& member = team_->members[rank];
  if (member.nonce != 0 && member.nonce != from.nonce)
    return refuse(RankText(rank, team_->members.size()) + " of the team is \"" + member.name + "\"");
  member.session = from.session;
  member.name = from.name;
  member.nonce = from.nonce;
  member.forming = std::max(member.forming, ask.forming);
  TeamCall* call = nullptr;
  if (team_->failure.ok() && ask.call != 0) {
    if (ask.bytes > kTeamCallBytesMax) return refuse("a member gives at most 64 MiB in a call");
    call = FindCall(member, ask.call);
    if (call == nullptr && ask.call <= team_->done) {  // all have everything; the member has not heard of that
      TeamState state = StateFor(rank, nullptr);
      state.answers = ask.question;
      state.call = ask.call;
      state.held = state.complete = state.floor = TeamPieces(kTeamCallBytesMax);
      SendTo(rank, std::move(state), facts, out);
      return false;
    }
    if (call == nullptr && ask.call < member.call) return false;  // a late copy
    if (call == nullptr) {
      Fail(Invalid(NameOf(rank) + " is in the team's call " + std::to_string(ask.call) + ", and others in call " +
                   std::to_string(team_->calls.back().number())),
           facts, out);
    }
  }
  bool completed = false;
  if (call != nullptr) {
    if (const auto other = call->Contradicts(rank, ask)) {
      Fail(Invalid(NameOf(rank) + " calls " + Excerpt(ask.what, kTeamTextBytesMax) + ", and " + NameOf(*other) + " " +
                   Excerpt(call->WhatOf(*other), kTeamTextBytesMax) + ", as call " + std::to_string(ask.call) +
                   " of their team; all members make the same calls in the same order, then form another team"),
           facts, out);
      return false;
    }
    member.call = std::max(member.call, ask.call);
    const bool asks_again = call->HasAsked(rank) && ask.received <= call->ReceivedBy(rank);
    call->Ask(rank, ask);
    const std::uint32_t floor = call->floor();
    completed = GoOn(call, facts, out);
    if (ask.again) Relay(*call, rank, std::max(ask.received, call->floor()), call->complete(), facts, out);
    const bool moved = call->floor() != floor;
    for (TeamCall& earlier : team_->calls) {
      if (earlier.number() >= member.call) continue;
      earlier.HasAll(rank);
      earlier.Advance();
    }
    // A member may need pieces that the members ahead of it gave to an earlier coordinator.
    for (std::uint32_t ahead = 0; ahead < team_->members.size(); ++ahead) {
      for (const TeamCall& earlier : team_->calls) {
        if (team_->members[ahead].call <= earlier.number() || earlier.HasAsked(ahead)) continue;
        TeamState state = StateFor(ahead, &earlier);
        state.wanted = true;
        SendTo(ahead, std::move(state), facts, out);
      }
    }
    if (moved) SendToAll(call, facts, out);
    // Members that do not wait themselves may not know that others wait for their pieces.
    for (std::uint32_t other = 0; asks_again && !moved && other < team_->members.size(); ++other) {
      if (other != rank && call->HasAsked(other) && call->Owes(other)) SendTo(other, StateFor(other, call), facts, out);
    }
  }
  TeamState state = StateFor(rank, call);
  state.answers = ask.question;
  SendTo(rank, std::move(state), facts, out);
  DropDone();
  return completed;
}

bool Teams::Handle(const Worker& from, const TeamGive& give, const Slice& payload, const Facts& facts, Outbox* out) {
  if (!team_ || team_->id != give.team || !team_->failure.ok()) return false;
  const auto is_from = [&](const Member& member) { return member.session == from.session; };
  const auto member = std::find_if(team_->members.begin(), team_->members.end(), is_from);
  const auto call = std::find_if(team_->calls.begin(), team_->calls.end(),
                                 [&](const TeamCall& one) { return one.number() == give.call; });
  if (member == team_->members.end() || call == team_->calls.end()) return false;
  if (Hash64(payload.bytes()) != give.payload_hash) return false;  // the member's next question finds out
  const auto rank = static_cast<std::uint32_t>(member - team_->members.begin());
  return call->Give(rank, give.piece, payload, give.payload_hash) && GoOn(&*call, facts, out);
}

// Passes on the pieces that have become complete. Returns whether the whole call has.
bool Teams::GoOn(TeamCall* call, const Facts& facts, Outbox* out) {
  const std::uint32_t before = call->complete();
  const bool was_complete = call->IsComplete();
  call->Advance();
  for (std::uint32_t to = 0; to < team_->members.size() && before < call->complete(); ++to) {
    Relay(*call, to, before, call->complete(), facts, out);
  }
  return call->IsComplete() && !was_complete;
}

void Teams::Relay(const TeamCall& call, std::uint32_t to, std::uint32_t begin, std::uint32_t end, const Facts& facts,
                  Outbox* out) {
  const Worker* const worker = facts.members.Find(team_->members[to].session);
  if (worker == nullptr) return;
  for (std::uint32_t piece = begin; piece < end; ++piece) {
    for (std::uint32_t rank = 0; rank < team_->members.size(); ++rank) {
      if (rank == to || !call.HasPiece(rank, piece)) continue;
      auto [payload, hash] = call.PieceOf(rank, piece);
      out->Send(worker->peer, TeamPiece{team_->id, call.number(), rank, piece, call.BytesOf(rank), call.floor(), hash},
                std::move(payload));
    }
  }
}

// Returns the call of this number, which the member is in; null: it is over, or no member can be in it.
TeamCall* Teams::FindCall(const Member& member, std::uint64_t number) {
  std::deque<TeamCall>& calls = team_->calls;
  for (TeamCall& call : calls) {
    if (call.number() == number) return &call;
  }
  if (number <= team_->done || number < member.call) return nullptr;
  const auto ranks = static_cast<std::uint32_t>(team_->members.size());
  if (calls.empty() || number == calls.back().number() + 1) {
    // A member that begins a call has received the one before it; so all have begun that one, and need no earlier.
    if (calls.size() == 2) calls.pop_front();
    return &calls.emplace_back(number, ranks);
  }
  if (calls.size() == 1 && number + 1 == calls.front().number()) return &calls.emplace_front(number, ranks);
  return nullptr;
}

void Teams::DropDone() {
  while (!team_->calls.empty() && team_->calls.front().IsDone()) {
    team_->done = std::max(team_->done, team_->calls.front().number());
    team_->calls.pop_front();
  }
}

// ---- time, failures, texts -----------------------------------------------------------------------------------------

void Teams::Tick(const Facts& facts, Outbox* out) {
  for (std::uint32_t rank = 0; team_ && team_->failure.ok() && rank < team_->members.size(); ++rank) {
    const Member& member = team_->members[rank];
    const bool is_lost = member.nonce == 0 ? facts.are_back : facts.members.Find(member.session) == nullptr;
    if (!is_lost) continue;
    Fail(Unreachable(NameOf(rank) + " of the team is lost or has left; form another team with those that remain"),
         facts, out);
  }
  FormWhenComplete(facts, out);
}

void Teams::Fail(Status status, const Facts& facts, Outbox* out) {
  out->Log(Severity::kWarning, "the team for collective calls has ended: " + status.message());
  team_->failure = std::move(status);
  team_->calls.clear();
  SendToAll(nullptr, facts, out);
}

std::string Teams::NameOf(std::uint32_t rank) const {
  const Member& member = team_->members[rank];
  return RankText(rank, team_->members.size()) + " (" +
         (member.nonce == 0 ? "which has not come back since the coordinator restarted" : "\"" + member.name + "\"") +
         ")";
}

// Names the members for which the call waits; empty: none.
std::string Teams::MissingIn(const TeamCall& call) const {
  std::string names;
  std::size_t missing = 0;
  for (std::uint32_t rank = 0; rank < team_->members.size(); ++rank) {
    if ((!call.HasAsked(rank) || call.Owes(rank)) && ++missing <= kNamedMax) AddName(&names, NameOf(rank));
  }
  if (missing > kNamedMax) AddName(&names, std::to_string(missing - kNamedMax) + " more");
  return names;
}

TeamState Teams::StateFor(std::uint32_t rank, const TeamCall* call) const {
  TeamState state;
  state.team = team_->id;
  state.forming = team_->members[rank].forming;
  state.rank = rank + 1;
  state.ranks = static_cast<std::uint32_t>(team_->members.size());
  state.failure = team_->failure.code();
  state.message = team_->failure.message();
  state.waiting = static_cast<std::uint32_t>(wishes_.size());
  if (call == nullptr) return state;
  state.call = call->number();
  state.held = call->Held(rank);
  state.complete = call->complete();
  state.floor = call->floor();
  state.message = MissingIn(*call);
  return state;
}

void Teams::SendToAll(const TeamCall* call, const Facts& facts, Outbox* out) {
  for (std::uint32_t rank = 0; rank < team_->members.size(); ++rank) {
    SendTo(rank, StateFor(rank, call), facts, out);
  }
}

void Teams::SendTo(std::uint32_t rank, TeamState state, const Facts& facts, Outbox* out) const {
  const Worker* const worker = facts.members.Find(team_->members[rank].session);
  if (worker != nullptr) out->Send(worker->peer, std::move(state));
}

}  // namespace capstan::server
