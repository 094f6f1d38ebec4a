// Teams: forms the team of the workers that make collective calls together, and passes their bytes on.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart the members' questions name the team and the call
//         again, and each gives again what another one still needs.
// Limits: one team at a time, of kTeamRanksMax members; two calls, because a member may begin the next one before the
//         others have received the last pieces.
// Fails:  a lost member (kUnreachable) or a call that differs (kInvalid) ends the team, and every member learns why.
//         The program forms another.
// Why:    a coordinator knows who is a member, who is lost, and what they are called; and workers need no links to each
//         other. Its memory is bounded by members x window x piece.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/actor.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/team_call.h"

namespace capstan::server {

class Teams {
 public:
  static constexpr std::size_t kNamedMax = 8;  // missing members named in a text

  struct Facts {
    const Membership& members;
    Term term;
    // Fewer workers form no team, unless the program gave them ranks: no first team, and no team of workers of which
    // some were in one before.
    std::size_t first = 1, again = 1;
    bool are_back = false;  // a worker that an earlier coordinator knew has had time to join again
  };

  // Takes a worker's question. Returns whether a call has become complete.
  bool Handle(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out);
  bool Handle(const Worker& from, const TeamGive& give, const Slice& payload, const Facts& facts, Outbox* out);
  // Ends the team of a member that is lost, and forms a team that waited for one.
  void Tick(const Facts& facts, Outbox* out);

 private:
  struct Member {
    SessionId session;  // 0: it has not come since this coordinator started
    std::string name;
    std::uint64_t nonce = 0;
    std::uint64_t forming = 0;
    std::uint64_t call = 0;  // the newest that it has begun
  };
  struct Team {
    std::uint64_t id = 0;
    std::vector<Member> members;  // by rank
    Status failure;
    std::deque<TeamCall> calls;  // consecutive; at most two
    std::uint64_t done = 0;      // the newest call that all have received
  };
  struct Wish {
    std::string name;
    std::uint64_t forming = 0;
    std::uint32_t rank = 0, ranks = 0, former = 0;
  };

  void AskToForm(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out);
  bool AskInTeam(const Worker& from, const TeamAsk& ask, const Facts& facts, Outbox* out);
  bool Adopt(const TeamAsk& ask, const Facts& facts);
  bool GoOn(TeamCall* call, const Facts& facts, Outbox* out);
  void Relay(const TeamCall& call, std::uint32_t to, std::uint32_t begin, std::uint32_t end, const Facts& facts,
             Outbox* out);
  TeamCall* FindCall(const Member& member, std::uint64_t number);
  void DropDone();
  void FormWhenComplete(const Facts& facts, Outbox* out);
  std::string MissingToForm(const Facts& facts) const;
  std::string MissingIn(const TeamCall& call) const;
  std::string NameOf(std::uint32_t rank) const;
  void Fail(Status status, const Facts& facts, Outbox* out);
  TeamState StateFor(std::uint32_t rank, const TeamCall* call) const;
  void SendToAll(const TeamCall* call, const Facts& facts, Outbox* out);
  void SendTo(std::uint32_t rank, TeamState state, const Facts& facts, Outbox* out) const;

  std::optional<Team> team_;
  std::map<SessionId, Wish> wishes_;  // of workers that wait for a team
  std::uint64_t formed_ = 0;          // in this term
};

}  // namespace capstan::server
