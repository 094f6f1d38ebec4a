// AdmitPush, AdmitPull: whether a push may be staged or applied now, and a pull answered, in each mode.
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
  kPassed,    // already part of the weights: acknowledge and drop
  kTooEarly,  // the push is of a later step than the shard's: the sender must send again later
  kGap,       // an earlier sequence number is missing: the sender must send again from there
};

// `step`: the push's step (sync) or sequence number (async); `current`: the shard's step; `last`: the newest sequence
// number of that slot applied to that block.
inline PushAdmission AdmitPush(Mode mode, Step step, Step current, SequenceNumber last) {
  if (HasGlobalSteps(mode)) {
    if (step < current) return PushAdmission::kPassed;
    return step == current ? PushAdmission::kStage : PushAdmission::kTooEarly;
  }
  if (SequenceOf(step) <= last) return PushAdmission::kPassed;
  return SequenceOf(step) == last.Next() ? PushAdmission::kApply : PushAdmission::kGap;
}

enum class PullAdmission { kAnswer, kPark, kStale, kTooEarly };

// How many versions after the published one a pull may ask for. A worker asks for the next version; a reader of a job with short steps asks
// for a later one, which does not exist yet when its pull arrives.
inline constexpr std::uint64_t kFutureVersionsMax = 64;

// In mode sync a shard answers with exactly the wanted version, in async with the newest version of each block. In
// bounded it also answers with the newest version, but parks the pull while the slowest slot is more than `staleness`
// pushes behind: there, `wanted` is the asking slot's clock and `published` is the slowest slot's clock.
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
