// TeamEvent: what a TeamMember tells the application.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"

namespace capstan::session {

struct TeamFormed {
  std::uint32_t rank = 0, ranks = 0;  // rank: from 0
  std::uint64_t wish = 0;             // the FormTeamCommand that it answers
};
struct TeamPieces {  // the next piece of the team's call, from all members
  std::uint64_t call = 0;
  std::uint32_t piece = 0;
  bool is_last = false;
  std::vector<std::uint64_t> bytes;  // what each rank gives in the call
  std::vector<Slice> parts;          // by rank; empty: this rank gives no such piece
};
struct TeamWaits {
  std::string missing;        // text for the user
  std::uint32_t waiting = 0;  // processes that wait for another team
};
struct TeamFailed {  // the team is over
  Status status;
  std::uint64_t wish = 0;  // the FormTeamCommand that made it
};
using TeamEvent = std::variant<TeamFormed, TeamPieces, TeamWaits, TeamFailed>;

}  // namespace capstan::session
