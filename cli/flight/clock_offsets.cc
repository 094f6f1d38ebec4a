#include "cli/flight/clock_offsets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "common/flight/flight_text.h"
#include "common/flight/peer_names.h"

namespace capstan::cli {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::size_t kClocksMax = 256;  // the cost rises with the cube

// Names a message: its type, generation and position, and the names of sender and receiver.
using MessageKey = std::tuple<std::uint8_t, std::uint32_t, std::uint64_t, std::string, std::string>;

struct Moment {
  std::size_t clock = 0;
  std::int64_t at_ns = std::numeric_limits<std::int64_t>::max();
};
using Moments = std::map<MessageKey, Moment>;

std::string ShortName(const std::string& name) {
  std::array<char, kFlightPeerBytesMax> place{};
  PutShortName(name, &place);
  return std::string(TextIn(place));
}

void Keep(Moments* moments, MessageKey key, std::size_t clock, std::uint64_t at_ns) {
  const auto at = static_cast<std::int64_t>(std::min<std::uint64_t>(at_ns, kUnknown));
  Moment& moment = (*moments)[std::move(key)];
  if (at < moment.at_ns) moment = {clock, at};
}

void Collect(const FlightTrack& track, std::size_t clock, Moments* sent, Moments* received) {
  const std::string own = ShortName(track.name);
  for (const FlightEvent& event : track.events) {
    const FlightRecord& record = event.record;
    const std::string peer(TextIn(record.peer));
    if (record.kind == FlightKind::kSent && (record.flags & kFlightBegins) != 0) {
      Keep(sent, {record.message, record.generation, record.position, own, peer}, clock, record.at_ns);
    } else if (record.kind == FlightKind::kReceived) {
      Keep(received, {record.message, record.generation, record.position, peer, own}, clock, record.at_ns);
    }
  }
}

// most[a][b]: the most that the offset of clock a may be above that of clock b.
using Bounds = std::vector<std::vector<std::int64_t>>;

Bounds BoundsOf(std::size_t clocks, const Moments& sent, const Moments& received) {
  Bounds most(clocks, std::vector<std::int64_t>(clocks, kUnknown));
  for (std::size_t i = 0; i < clocks; ++i) most[i][i] = 0;
  std::vector<std::int64_t> newest(clocks, 0);  // per clock: the newest moment that is used
  for (const auto& [key, moment] : received) newest[moment.clock] = std::max(newest[moment.clock], moment.at_ns);
  for (const auto& [key, from] : sent) {
    const auto found = received.find(key);
    if (found == received.end() || found->second.clock == from.clock) continue;
    const Moment& to = found->second;
    const double age = static_cast<double>(newest[to.clock] - to.at_ns);
    const std::int64_t bound = to.at_ns - from.at_ns + static_cast<std::int64_t>(age * kClockDriftMax);
    most[from.clock][to.clock] = std::min(most[from.clock][to.clock], bound);
  }
  for (std::size_t k = 0; k < clocks; ++k) {
    for (std::size_t i = 0; i < clocks; ++i) {
      for (std::size_t j = 0; j < clocks; ++j) {
        if (most[i][k] >= kUnknown || most[k][j] >= kUnknown) continue;
        const std::int64_t both = std::max(most[i][k] + most[k][j], -kUnknown);
        most[i][j] = std::min(most[i][j], both);
      }
    }
  }
  return most;
}

std::int64_t DayMinusMonotonic(const FlightProcess& process) {
  return static_cast<std::int64_t>(process.header.realtime_ns - process.header.monotonic_ns);
}

}  // namespace

std::size_t ReferenceOf(const std::vector<FlightProcess>& processes) {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (const FlightTrack& track : processes[i].tracks) {
      if (track.name == kFlightCoordinator) return i;
    }
  }
  return 0;
}

std::vector<ClockOffset> AlignClocks(const std::vector<FlightProcess>& processes) {
  std::vector<ClockOffset> offsets(processes.size());
  if (processes.empty()) return offsets;
  const FlightProcess& reference = processes[ReferenceOf(processes)];
  std::map<std::uint64_t, std::size_t> clocks = {{reference.header.clock, 0}};
  Moments sent, received;
  for (const FlightProcess& process : processes) {
    const std::size_t clock = clocks.try_emplace(process.header.clock, clocks.size()).first->second;
    if (clock >= kClocksMax) continue;
    for (const FlightTrack& track : process.tracks) Collect(track, clock, &sent, &received);
  }
  const Bounds most = BoundsOf(std::min(clocks.size(), kClocksMax), sent, received);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const std::size_t clock = clocks.at(processes[i].header.clock);
    if (clock == 0) continue;
    offsets[i] = {DayMinusMonotonic(processes[i]) - DayMinusMonotonic(reference), std::nullopt};
    if (clock >= kClocksMax || most[clock][0] >= kUnknown || most[0][clock] >= kUnknown) continue;
    const std::int64_t high = most[clock][0], low = -most[0][clock];
    if (low <= high) offsets[i] = {low + (high - low) / 2, (high - low + 1) / 2};
  }
  return offsets;
}

}  // namespace capstan::cli
