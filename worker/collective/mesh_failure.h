// MeshFailure: why a mesh is over, and which ranks are missing; small enough to send to all ranks.
//
// Kind:   values; pure functions.
// Why:    the rank that detects a failure first sends it to the others. So they report the same missing ranks, not each
//         its own neighbour.
#pragma once

#include <bitset>
#include <string>

#include "worker/collective/mesh.h"

namespace capstan::collective {

enum class Reason : std::uint32_t {
  kAbsent = 1,   // a deadline passed; the missing ranks have not begun the call or do not answer
  kLost = 2,     // connections to the missing ranks broke
  kAborted = 3,  // the rank in `missing` called Abort
  kStalled = 4,  // a deadline passed though all ranks answer and have begun the call; `missing`: the rank waited for
  kSilent = 5,   // the missing ranks did not answer repeated probes
};

using RankSet = std::bitset<kRanksMax>;

struct MeshFailure {
  Reason reason = Reason::kAbsent;
  RankSet missing = {};
  std::string why = {};  // the transport's error text, if any
};

inline std::string NamesOf(const RankSet& ranks, const NameOfRank& name_of) {
  std::string names;
  for (int rank = 0; rank < kRanksMax; ++rank) {
    if (!ranks.test(static_cast<std::size_t>(rank))) continue;
    names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
    if (name_of) names += " (" + name_of(rank) + ")";
  }
  return names;
}

inline Status StatusOf(const MeshFailure& failure, const NameOfRank& name_of) {
  const std::string names = NamesOf(failure.missing, name_of);
  const std::string next =
      "; form the group again with the ranks that are left" + (failure.why.empty() ? "" : " (" + failure.why + ")");
  switch (failure.reason) {
    case Reason::kStalled:
      return Timeout("a collective's deadline has passed in waiting for " + names +
                     ", though all members answer and have begun it; let all make the same calls with arrays of one " +
                     "size and the same options, or give them more time");
    case Reason::kAbsent: return Timeout("a collective's deadline has passed, and missing in it: " + names + next);
    case Reason::kLost: return Unreachable("the connection broke to " + names + next);
    case Reason::kSilent: return Unreachable("no answer comes any more from " + names + next);
    case Reason::kAborted: return Unreachable("the group was aborted by " + names + next);
  }
  return Unreachable("the group is over" + next);
}

}  // namespace capstan::collective
