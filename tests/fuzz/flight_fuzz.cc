// The target reads the input as a file of a flight recorder, with the hash that it should have. It is refused by name,
// or its events can be merged with those of another clock and shown.
#include "cli/flight/flight_file.h"

#include <cstring>
#include <span>
#include <string>

#include "cli/flight/flight_history.h"
#include "cli/flight/flight_lines.h"
#include "common/base/hash.h"
#include "common/flight/message_facts.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

using namespace cli;

constexpr std::size_t kLineBytesMax = 4096;

// Sets the fields that a fuzzer cannot guess: the hash of the types of messages, and that of the lanes, whose sizes are
// in their headers.
std::string Seal(std::string_view bytes) {
  std::string sealed(bytes);
  FlightFileHeader header;
  if (sealed.size() < sizeof header) return sealed;
  std::memcpy(static_cast<void*>(&header), sealed.data(), sizeof header);
  header.message_types = HashOfMessageTypes();
  header.hash = 0;
  std::string_view rest = std::string_view(sealed).substr(sizeof header);
  for (std::uint32_t i = 0; i < header.lanes && rest.size() >= sizeof(FlightLaneHeader); ++i) {
    FlightLaneHeader lane;
    std::memcpy(static_cast<void*>(&lane), rest.data(), sizeof lane);
    const std::size_t size =
        sizeof lane + lane.record_capacity * sizeof(FlightRecord) + lane.event_capacity * sizeof(FlightEvent);
    const std::string_view one = rest.substr(0, size);
    header.hash = Hash64(std::as_bytes(std::span(one)), header.hash);
    rest.remove_prefix(one.size());
  }
  std::memcpy(sealed.data(), &header, sizeof header);
  return sealed;
}

void RunFlight(std::string_view bytes) {
  const Result<FlightProcess> parsed = ParseFlightFile(Seal(bytes), "x.flight");
  if (!parsed.ok()) return RequireReason(parsed.status(), "x.flight");
  FlightProcess other = *parsed;
  other.header.clock += 1;
  FlightHistory history = MergeFlights({*parsed, other});
  std::size_t events = 0;
  for (const FlightTrack& track : parsed->tracks) events += track.events.size();
  Require(history.entries.size() == 2 * events, "every event is shown once for each process");
  const FlightSummary summary{FindLastHeard(history), FindOpenWaits(history)};
  for (const std::string& line : LinesOf(history, summary)) {
    Require(line.size() <= kLineBytesMax && line.find('\n') == std::string::npos,
            "an event is one short line: " + line);
  }
  Require(JsonOf(history, summary).front() == '{', "a history is an object");
  Filter({.last_seconds = 1}, &history);
}

const Registered flight_target({"flight", RunFlight});

}  // namespace
}  // namespace capstan::fuzz
