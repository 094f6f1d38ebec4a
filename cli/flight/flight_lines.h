// LinesOf, JsonOf: a history of flight recordings for people and for programs.
//
// Kind:   pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/flight/flight_history.h"

namespace capstan::cli {

// The lines after the events. They are made from all events, whatever the filter.
struct FlightSummary {
  std::vector<LastHeard> last_heard;
  std::vector<FlightEntry> waits;
};

// Returns lines: the processes with their clocks, the events, and the summary.
std::vector<std::string> LinesOf(const FlightHistory& history, const FlightSummary& summary);
// Returns one JSON object with the same.
std::string JsonOf(const FlightHistory& history, const FlightSummary& summary);

}  // namespace capstan::cli
