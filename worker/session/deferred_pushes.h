// DeferredPushes: until when a session defers pushes, because another worker of its machine pushes sums that contain
// them, and when the session asks shards whether they have those sums.
//
// Kind:   a value; part of Session's core.
// Limits: after kAsk without an acknowledgement the shards are asked; after kMost the deferred pushes are sent.
// Why:    shards acknowledge a sum only to the worker that pushed it, so this worker asks. On a slow link sums arrive
//         one after the other for a long time, so every acknowledgement restarts these waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/base/types.h"

namespace capstan::session {

class DeferredPushes {
 public:
  static constexpr Instant kAsk = std::chrono::seconds(5), kMost = std::chrono::seconds(15);

  // Returns whether a push of this round may be deferred. If so, the round's sums count as not made yet.
  bool Defer(std::uint64_t round) {
    if (round <= released_) return false;
    newest_ = round;
    moved_.reset();
    return true;
  }
  // From now on, pushes of this round and earlier ones are not deferred.
  void Release(std::uint64_t round) { released_ = std::max(released_, round); }
  // Notes that the round's sums are made and being pushed, so that shards should have them soon.
  void SumsMade(std::uint64_t round, Instant now) {
    if (round == newest_) moved_ = now;
  }
  // Notes that a shard has acknowledged pushes of this session, which may be inside a sum.
  void Acknowledged(Instant now) {
    if (moved_) moved_ = now;
  }

  enum class Due { kNothing, kAsk, kRelease };
  // Returns whether to ask the shards or to send the deferred pushes now. `any`: whether any pushes are deferred.
  Due Tick(bool any, Instant now) {
    if (!moved_ || now - *moved_ < kAsk) return Due::kNothing;
    if (!any) {
      moved_.reset();
      return Due::kNothing;
    }
    if (now - *moved_ >= kMost) return Due::kRelease;
    if (now < next_question_) return Due::kNothing;
    next_question_ = now + kAsk;
    return Due::kAsk;
  }

 private:
  std::uint64_t released_ = 0;  // rounds up to this one defer no pushes
  std::uint64_t newest_ = 0;    // the newest round with deferred pushes
  // When the round's sums were made, or when a shard last acknowledged pushes after that; empty: sums are not made yet.
  std::optional<Instant> moved_;
  Instant next_question_{};  // when to ask the shards again
};

}  // namespace capstan::session
