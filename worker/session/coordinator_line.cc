#include "worker/session/coordinator_line.h"

namespace capstan::client {

Instant CoordinatorLine::Tick(Instant now) {
  // After this process stood still (SIGSTOP, a suspended machine), silence is not the coordinator's fault.
  if (!heard_ || now - last_tick_ > kStoodStill) heard_ = now;
  last_tick_ = now;
  return now - *heard_;
}

bool CoordinatorLine::TakeBeat(Instant now) {
  if (now < next_beat_) return false;
  next_beat_ = now + kBeatEvery;
  return true;
}

}  // namespace capstan::client
