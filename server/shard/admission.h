// What may be applied, staged or answered now: the one place on the server where the modes differ.
//
// Kind:   pure functions.
// Why:    everything else in a shard (versions, staging, buffers, replies) is the same for every mode.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/config/job/mode.h"

namespace capstan::server {

enum class PushAdmission {
  kStage,     // keep it for the step's sum
  kApply,     // update the block with it alone, now
  kPassed,    // already part of the weights: acknowledge and ignore
  kTooEarly,  // the sender is ahead of this shard: ask again later
  kGap,       // a sequence number between is missing: the sender must resend from there
};

// `step`: the push's step (sync) or sequence number (async); `current`: the shard's step; `last`: the newest sequence
// number of that slot applied to that block.
inline PushAdmission AdmitPush(Mode mode, Step step, Step current, std::uint64_t last) {
  if (HasGlobalSteps(mode)) {
    if (step < current) return PushAdmission::kPassed;
    return step == current ? PushAdmission::kStage : PushAdmission::kTooEarly;
  }
  if (step.value <= last) return PushAdmission::kPassed;
  return step.value == last + 1 ? PushAdmission::kApply : PushAdmission::kGap;
}

enum class PullAdmission { kAnswer, kPark, kStale, kTooEarly };

// A worker asks for the next version; a reader of short steps for one that is still to come when its pull arrives.
inline constexpr std::uint64_t kPullsAheadMax = 64;

// sync answers with exactly the version asked for; async with the newest of each block; bounded does too, when the
// slowest slot is at most `staleness` pushes behind. `wanted`: there, the clock of the slot that asks; `published`: the
// slowest slot's.
inline PullAdmission AdmitPull(Mode mode, Version wanted, Version published, std::uint64_t staleness) {
  if (mode == Mode::kAsync || wanted == published) return PullAdmission::kAnswer;
  if (mode == Mode::kBounded) {
    const bool near = wanted < published || wanted.value - published.value <= staleness;
    return near ? PullAdmission::kAnswer : PullAdmission::kPark;
  }
  if (wanted < published) return PullAdmission::kStale;
  return wanted.value - published.value <= kPullsAheadMax ? PullAdmission::kPark : PullAdmission::kTooEarly;
}

// Whether what a pull may see depends on the slowest slot's clock.
inline bool PullsAreBounded(Mode mode) { return mode == Mode::kBounded; }

}  // namespace capstan::server
