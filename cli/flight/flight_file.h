// FlightProcess, ReadFlightFile: the contents of a flight recorder's file.
//
// Kind:   values, and functions that read.
// Limits: a file has at most kFlightLanesMax lanes, so a larger one is refused unread.
// Fails:  kInvalid: it cannot be read, or is another version's; kBusy: its process has not written it; kCorrupt: it is
//         cut, damaged, or was being written. The message names the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/flight/flight_format.h"

namespace capstan::cli {

// The messages and events that one thread recorded, each oldest first.
struct FlightTrack {
  std::string name;
  std::vector<FlightEvent> events;  // messages without a text among them
  std::uint64_t overwritten = 0;    // how many older ones are gone
};

struct FlightProcess {
  std::string file, name;
  FlightFileHeader header;
  std::vector<FlightTrack> tracks;
};

Result<FlightProcess> ParseFlightFile(std::string_view bytes, const std::string& file);
Result<FlightProcess> ReadFlightFile(const std::string& file);
// Returns how often the process has written the file; 0 if it never has, or if the file is no flight recorder's.
std::uint64_t WritesIn(const std::string& file);

}  // namespace capstan::cli
