// FlightHistory: the events of several processes, on one clock and in the order of time.
//
// Kind:   a value and pure functions.
// Why:    no single process knows why a job hangs: one of them waits for a message that another never sent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/flight/clock_offsets.h"
#include "cli/flight/flight_file.h"

namespace capstan::cli {

struct FlightEntry {
  std::size_t process = 0;   // position in FlightHistory::processes
  std::string track;         // the name of its thread
  std::int64_t time_ns = 0;  // of day, by the reference's clock
  FlightEvent event;

  std::int64_t end_ns() const { return time_ns + std::int64_t{event.record.lasted_us} * 1000; }
};

struct FlightHistory {
  std::vector<FlightProcess> processes;
  std::vector<ClockOffset> clocks;   // of each process
  std::vector<FlightEntry> entries;  // oldest first
};

struct FlightFilter {
  std::vector<std::string> processes = {};  // names of processes or of their threads; empty: all
  std::vector<std::string> kinds = {};      // words of KindWord, or names of messages; empty: all
  std::optional<double> last_seconds = {};  // before the newest event
};

FlightHistory MergeFlights(std::vector<FlightProcess> processes);
// Removes the entries that the filter does not let pass.
void Filter(const FlightFilter& filter, FlightHistory* history);

// The word for a kind of event, such as "received".
std::string KindWord(FlightKind kind);
// Fails if no event can be of this kind.
Status CheckKind(const std::string& kind);

// The newest message that any process received from a peer. For a process that stopped, it is older than for others.
struct LastHeard {
  FlightEntry entry;
  std::int64_t before_newest_ns = 0;  // how long before the newest event
};
// By peer, the one heard of longest ago first. Peers without a name are left out: most of them have one later.
// `history` is unfiltered.
std::vector<LastHeard> FindLastHeard(const FlightHistory& history);
// Returns the newest wait of each thread that has not ended.
std::vector<FlightEntry> FindOpenWaits(const FlightHistory& history);

}  // namespace capstan::cli
