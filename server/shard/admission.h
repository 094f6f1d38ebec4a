// AdmitPush, AdmitPull: whether a shard may stage or apply a push now, or answer a pull now, in each mode.
//
// Kind:   pure functions.
// Why:    the admission rules of all modes are in one place and can be tested without a shard.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/config/job/mode.h"

namespace capstan::server {

enum class PushAdmission {
  kStage,     // keep the push for the step's sum
  kApply,     // update the block with this one push now
  kPassed,    // its step is over, or it was taken before: acknowledge and drop
  kTooEarly,  // the push is of a later step than the shard's: the sender must send again later
  kGap,       // an earlier sequence number is missing: the sender must send again from there
};

// With global steps, `step` is the push's step and `current` is the shard's step. Without global steps, `step` is the
// push's sequence number, and `last` is the newest one that this shard has of the slot's pushes to the block.
inline PushAdmission AdmitPush(Mode mode, Step step, Step current, SequenceNumber last) {
  if (HasGlobalSteps(mode)) {
    if (step < current) return PushAdmission::kPassed;
    return step == current ? PushAdmission::kStage : PushAdmission::kTooEarly;
  }
  if (SequenceOf(step) <= last) return PushAdmission::kPassed;
  return SequenceOf(step) == last.Next() ? PushAdmission::kApply : PushAdmission::kGap;
}

enum class PullAdmission { kAnswer, kPark, kStale, kTooEarly };

// With global steps: how many versions after the published one a pull may ask for. A worker asks for the next version.
// A reader that was too late for a version asks for a later one, which need not exist yet when the pull arrives.
inline constexpr std::uint64_t kFutureVersionsMax = 64;

// With global steps a shard answers with exactly the wanted version. In async it answers at once, with the newest
// version of each block. In bounded it does the same, but parks the pull while the slowest slot is more than
// `staleness` pushes behind the asking slot. There, `wanted` is the asking slot's clock and `published` the slowest's.
inline PullAdmission AdmitPull(Mode mode, Version wanted, Version published, std::uint64_t staleness) {
  if (mode == Mode::kAsync || wanted == published) return PullAdmission::kAnswer;
  if (mode == Mode::kBounded) {
    const bool near = wanted < published || wanted.value - published.value <= staleness;
    return near ? PullAdmission::kAnswer : PullAdmission::kPark;
  }
  if (wanted < published) return PullAdmission::kStale;
  return wanted.value - published.value <= kFutureVersionsMax ? PullAdmission::kPark : PullAdmission::kTooEarly;
}

}  // namespace capstan::server
