// TeamAsk, TeamGive, TeamState, TeamPiece: collective calls of a team of workers, whose bytes meet at the coordinator.
//
// Kind:   values.
// Limits: kTeamRanksMax members; a member gives at most kTeamCallBytesMax bytes in a call, in pieces of
//         kTeamPieceBytes. In a call the coordinator holds TeamWindow(ranks) pieces of each member: at most 32 MiB in
//         all.
// Why:    every collective is made of one: each member gives bytes, and each gets those of all members, by rank.
#pragma once

#include <capstan/status.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/types.h"

namespace capstan {

inline constexpr std::size_t kTeamPieceBytes = std::size_t{256} << 10;
inline constexpr std::uint64_t kTeamCallBytesMax = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kTeamRanksMax = 128;
inline constexpr std::size_t kTeamTextBytesMax = 512;

// How many pieces a member may give of a call before all members have received the first of them.
constexpr std::uint32_t TeamWindow(std::uint32_t ranks) {
  return std::clamp<std::uint32_t>(32 / std::max(ranks, 1U), 1, 8);
}
// How many pieces these bytes make; 0 for none.
constexpr std::uint32_t TeamPieces(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kTeamPieceBytes - 1) / kTeamPieceBytes);
}

// A member to the coordinator: it asks for a team, or announces its part of a call, or asks how far the call is.
struct TeamAsk {
  SessionId session;
  std::uint64_t nonce = 0;
  std::uint64_t team = 0;      // 0: it asks for a team
  std::uint64_t forming = 0;   // counts the teams that this process has asked for, from 1
  std::uint32_t rank = 0;      // from 1: its rank in `team`, or the one that it asks for; 0: any
  std::uint32_t ranks = 0;     // number of ranks, if `rank` is not 0
  std::uint32_t former = 0;    // its rank in its team before, from 1; 0: none
  std::uint64_t call = 0;      // counts the team's calls, from 1; 0: none has begun
  std::string what;            // the call in words; the same for all members
  std::uint64_t bytes = 0;     // what this member gives
  std::uint32_t received = 0;  // the first pieces of the call that it has from all members
  bool again = false;          // pieces that all have given were lost: it asks for those from `received` on
  std::uint64_t question = 0;  // numbers this process's questions; 0: it asks nothing
};

// The payload is a piece of what the member gives. The announcement in a TeamAsk comes first.
struct TeamGive {
  SessionId session;
  std::uint64_t team = 0;
  std::uint64_t call = 0;
  std::uint32_t piece = 0;
  std::uint64_t payload_hash = 0;
};

// The coordinator to a member: the team that it is in, and how far a call is.
struct TeamState {
  std::uint64_t team = 0;  // 0: the member's team has not formed
  std::uint64_t forming = 0;
  std::uint32_t rank = 0, ranks = 0;  // as in TeamAsk
  std::uint64_t call = 0;
  std::uint32_t held = 0;      // the first pieces of the member that the coordinator has had
  std::uint32_t complete = 0;  // the first pieces that all members have given
  std::uint32_t floor = 0;     // the first pieces that all members have received
  bool wanted = false;         // the coordinator has restarted: it needs this member's part of the call again
  std::uint64_t answers = 0;   // the question; 0: none
  Code failure = Code::kOk;    // why the team, or the wish for one, has failed
  std::string message;         // text for the user: the failure, or the members for which the call waits
  std::uint32_t waiting = 0;   // processes that wait for another team
};

// The payload is a piece of another member.
struct TeamPiece {
  std::uint64_t team = 0;
  std::uint64_t call = 0;
  std::uint32_t rank = 0;  // from 0: the member that gave it
  std::uint32_t piece = 0;
  std::uint64_t bytes = 0;  // all that this member gives in the call
  std::uint32_t floor = 0;  // as in TeamState
  std::uint64_t payload_hash = 0;
};

}  // namespace capstan
