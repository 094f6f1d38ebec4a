// Control: the control messages between ranks of a mesh, separate from the payload.
//
// Kind:   values; pure functions. All ranks run the same build, so messages are sent as they lie in memory.
// Limits: kWhyMax bytes for the reason's text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "worker/collective/mesh_failure.h"

namespace capstan::collective {

enum class ControlKind : std::uint32_t { kAsk = 0, kAnswer = 1, kFailure = 2, kProbe = 3, kHere = 4 };
inline constexpr std::size_t kKindsSentOnce = 3;  // without kProbe and its answer kHere

// A message from one rank to another. kProbe and its answer kHere may be sent again and again: they check that the
// connection works and that the other rank answers. Each other kind is sent at most once to each rank.
struct Control {
  static constexpr std::size_t kWhyMax = 160;

  ControlKind kind;
  // kAsk: a call's number; kAnswer: 1 if the sender has begun that call or waits in an earlier one, else 0; kFailure:
  // the Reason.
  std::uint64_t number = 0;
  std::array<std::uint8_t, kRanksMax / 8> missing{};
  std::array<char, kWhyMax> why{};  // only in kFailure; has no terminating zero if all characters are used
};

inline Control ControlOf(const MeshFailure& failure) {
  Control control{ControlKind::kFailure, static_cast<std::uint64_t>(failure.reason), {}, {}};
  for (std::size_t rank = 0; rank < kRanksMax; ++rank) {
    control.missing[rank / 8] |= static_cast<std::uint8_t>(failure.missing.test(rank) << rank % 8);
  }
  std::copy_n(failure.why.begin(), std::min(failure.why.size(), control.why.size()), control.why.begin());
  return control;
}

inline MeshFailure FailureOf(const Control& control, int size) {
  MeshFailure failure{static_cast<Reason>(control.number), {}, {}};
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
    failure.missing.set(rank, (control.missing[rank / 8] >> rank % 8 & 1) != 0);
  }
  failure.why.assign(control.why.begin(), std::find(control.why.begin(), control.why.end(), '\0'));
  return failure;
}

}  // namespace capstan::collective
