// VersionSource: how a program gets the version that a round computes with.
//
// Kind:   a value.
#pragma once

#include <cstdint>

namespace capstan::session {

enum class VersionSource : std::uint8_t {
  kServers,  // the servers have all weights, and the round brings them
  // The other values are of jobs whose optimizer stays in the program.
  kCurrent,   // the program has the version
  kGradient,  // the program makes it of the version before, with the mean gradient that is here
  kSkipped,   // it equals the version before
  kWhole,     // its weights and the program's state are here
};

}  // namespace capstan::session
