// Control: the control messages between ranks of a mesh, separate from the payload.
//
// Kind:   values; pure functions. All ranks run the same build, so messages are sent as they lie in memory.
// Limits: kWhyMax bytes for the reason's text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "worker/collective/verdict.h"

namespace capstan::collective {

enum class Say : std::uint32_t { kAsk = 0, kAnswer = 1, kFarewell = 2, kProbe = 3, kHere = 4 };
inline constexpr std::size_t kSayings = 3;  // without kProbe and its answer kHere

// A rank sends each kind at most once to each other rank. Only kProbe and kHere repeat: they check that the connection
// works and that the other rank answers.
struct Control {
  static constexpr std::size_t kWhyMax = 160;

  Say say;
  // kAsk: the call's number; kAnswer: 1 if the sender has begun that call or waits in an earlier one; kFarewell: the
  // reason.
  std::uint64_t number = 0;
  std::array<std::uint8_t, kRanksMax / 8> missing{};
  std::array<char, kWhyMax> why{};  // only in kFarewell; has no terminating zero if all characters are used
};

inline Control FarewellOf(const Verdict& verdict) {
  Control control{Say::kFarewell, static_cast<std::uint64_t>(verdict.reason), {}, {}};
  for (std::size_t rank = 0; rank < kRanksMax; ++rank) {
    control.missing[rank / 8] |= static_cast<std::uint8_t>(verdict.missing.test(rank) << rank % 8);
  }
  std::copy_n(verdict.why.begin(), std::min(verdict.why.size(), control.why.size()), control.why.begin());
  return control;
}

inline Verdict VerdictOf(const Control& farewell, int size) {
  Verdict verdict{static_cast<Reason>(farewell.number), {}, {}};
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    verdict.missing.set(rank, (farewell.missing[rank / 8] >> rank % 8 & 1) != 0);
  }
  verdict.why.assign(farewell.why.begin(), std::find(farewell.why.begin(), farewell.why.end(), '\0'));
  return verdict;
}

}  // namespace capstan::collective
