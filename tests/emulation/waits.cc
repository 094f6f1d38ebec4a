#include "tests/emulation/waits.h"

#include <atomic>

namespace capstan::emulation {
namespace {

std::atomic<bool> counts{false};
std::int64_t wanted = kNoWait;
Waits waits;

}  // namespace

void CountWaits(std::int64_t left_out) {
  wanted = left_out;
  waits = {};
  counts = true;
}

Waits StopCounting() {
  counts = false;
  return waits;
}

bool CountsWaits() { return counts.load(std::memory_order_relaxed); }

bool IsLeftOut(Waiting waiting) {
  if (!CountsWaits() || waits.count++ != wanted) return false;
  waits.left_out = waiting;
  return true;
}

}  // namespace capstan::emulation
