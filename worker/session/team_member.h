// TeamMember: this session's part in the collective calls of a team.
//
// Kind:   owned by SessionLoop's thread; a pure core.
// Limits: two calls: the present one, and the one before it, whose bytes a coordinator that restarts may need again.
// Fails:  TeamFailed ends the team; every later call fails with it until the application asks for another team.
// Why:    what a member gives is kept until all members are known to have it: they do once the next call is complete. A
//         coordinator that restarts has nothing; each member's question names its call, and the pieces go again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/wire/actor.h"
#include "worker/session/team_events.h"
#include "worker/session/team_exchange.h"

namespace capstan::session {

class TeamMember {
 public:
  static constexpr Instant kAskEvery = std::chrono::seconds(1);

  // `nonce`: of this process.
  TeamMember(PeerId coordinator, std::uint64_t nonce) : coordinator_(coordinator), nonce_(nonce) {}

  struct Wish {
    std::uint32_t rank = 0, ranks = 0;  // rank: from 1; 0: any
    std::uint64_t number = 0;           // of the application; TeamFormed and TeamFailed name it
  };
  // Asks for a team.
  void Form(const Wish& wish, SessionId session, Instant now, Outbox* out);
  // Begins the next call of the team. Requires that the one before is complete.
  void Call(std::string what, Slice given, SessionId session, Instant now, Outbox* out);

  // Ends all waits: this worker takes part in the job no more.
  void Stop();

  // Takes a message of the coordinator; others do not concern it.
  void Handle(PeerId from, const Message& message, SessionId session, Instant now, Outbox* out);
  void Handle(const TeamState& state, SessionId session, Instant now, Outbox* out);
  void Handle(const TeamPiece& piece, const Slice& payload, SessionId session, Instant now, Outbox* out);
  void Tick(SessionId session, Instant now, Outbox* out);
  // Call when the worker has joined, for the first time or at a coordinator that has restarted.
  void Rejoined(SessionId session, Instant now, Outbox* out);
  std::vector<TeamEvent> TakeEvents() { return std::exchange(events_, {}); }
  // Names the members that it waits for; empty: it waits for none.
  std::string WaitingFor() const;

 private:
  bool waits() const {
    return state_ == State::kForming || (state_ == State::kFormed && call_ && !call_->is_complete());
  }
  TeamAsk MakeAsk(SessionId session) const;
  void Ask(const TeamExchange* call, bool again, SessionId session, Instant now, Outbox* out);
  void Give(TeamExchange* call, SessionId session, Outbox* out);
  void Answered(TeamExchange* call, const TeamState& state, SessionId session, Instant now, Outbox* out);
  void Fail(Status status);

  const PeerId coordinator_;
  const std::uint64_t nonce_;
  enum class State : std::uint8_t { kNone, kForming, kFormed, kFailed } state_ = State::kNone;
  Status failure_;
  std::uint64_t team_ = 0, forming_ = 0;
  std::uint32_t rank_ = 0, ranks_ = 0;  // of the team, or wished for; rank_ is counted from 1
  std::uint32_t former_ = 0;
  std::uint64_t wish_ = 0, calls_ = 0;
  std::optional<TeamExchange> call_, before_;
  std::uint64_t question_ = 0;
  std::uint32_t sent_at_question_ = 0;
  Instant next_ask_{};
  bool introduced_ = true;  // the present coordinator knows that this worker is in the team
  std::string missing_;
  std::uint32_t waiting_ = 0;
  std::vector<TeamEvent> events_;
};

}  // namespace capstan::session
