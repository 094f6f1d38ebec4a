// CountWaits: counts the program's waits on the emulated device, and can leave one of them out.
//
// Kind: functions for tests and for the emulated runtime; called by the one host thread that enqueues and waits.
// Why:  a test leaves out each wait in turn and checks that something notices. If nothing does, either the wait is
//       superfluous or the test is too weak to find a wait that was forgotten.
#pragma once

#include <cstdint>

namespace capstan::emulation {

enum class Waiting : std::uint8_t { kStreamForEvent, kHostForEvent, kHostForStream };

inline constexpr std::int64_t kNoWait = -1;

// Starts to count waits from 0. The wait with number `left_out` returns at once. Until StopCounting, cudaEventQuery
// reports nothing as done, so that a program has the same waits each time.
void CountWaits(std::int64_t left_out = kNoWait);

struct Waits {
  std::int64_t count = 0;
  Waiting left_out = Waiting::kStreamForEvent;  // kind of the wait left out
};
Waits StopCounting();

bool CountsWaits();
// Counts this wait, if waits are counted. Returns whether it is the wait to leave out.
bool IsLeftOut(Waiting waiting);

}  // namespace capstan::emulation
