#include "worker/session/coordinator_line.h"

namespace capstan::session {

Instant CoordinatorLine::Tick(Instant now) {
  // If this process stood still (SIGSTOP, a suspended machine), the silence is not the coordinator's fault.
  if (!last_message_ || now - last_tick_ > kStoodStill) last_message_ = now;
  last_tick_ = now;
  return now - *last_message_;
}

bool CoordinatorLine::TakeBeat(Instant now) {
  if (now < next_beat_) return false;
  next_beat_ = now + kBeatEvery;
  return true;
}

}  // namespace capstan::session
