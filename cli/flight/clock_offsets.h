// AlignClocks: how the clocks of several machines differ, by the messages that their processes sent each other.
//
// Kind:   pure function.
// Limits: clocks that no messages connect are aligned by the machines' times of day, without a bound.
// Why:    a message cannot arrive before it is sent. So a message from A to B bounds the difference of their clocks on
//         one side, and one from B to A on the other. Processes of one machine share a clock and need no bound.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/flight/flight_file.h"

namespace capstan::cli {

// How far two clocks may drift apart, of which old messages are allowed as much as they are old.
inline constexpr double kClockDriftMax = 1e-4;

struct ClockOffset {
  std::int64_t offset_ns = 0;  // to be added to a time of the process for that of the reference
  // How wrong the offset may be: 0 for a clock that is the reference's; none: only the times of day are known.
  std::optional<std::int64_t> error_ns = 0;
};

// Returns an offset for each process. The reference is the clock of the coordinator, or else of the first process.
std::vector<ClockOffset> AlignClocks(const std::vector<FlightProcess>& processes);
// Returns the position of the process whose clock is the reference.
std::size_t ReferenceOf(const std::vector<FlightProcess>& processes);

}  // namespace capstan::cli
