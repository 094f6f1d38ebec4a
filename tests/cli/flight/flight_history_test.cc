#include "cli/flight/flight_history.h"

#include <algorithm>
#include <string>

#include "cli/flight/flight_lines.h"
#include "common/flight/flight_text.h"
#include "common/flight/peer_names.h"
#include "common/wire/messages.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000;
constexpr std::uint64_t kDay = 1'700'000'000 * kSecond;

FlightEvent MessageOf(FlightKind kind, std::size_t type, std::uint64_t at_ns, std::uint64_t step,
                      const std::string& peer) {
  FlightEvent event;
  event.record.at_ns = at_ns;
  event.record.count = event.record.last_count = 1;
  event.record.position = step;
  event.record.generation = 1;
  event.record.kind = kind;
  event.record.message = static_cast<std::uint8_t>(type);
  event.record.flags = kFlightBegins;
  PutShortName(peer, &event.record.peer);
  return event;
}

FlightEvent NoteOf(FlightKind kind, std::uint64_t at_ns, const std::string& text) {
  FlightEvent event = MessageOf(kind, 0, at_ns, 0, "");
  PutText(text, &event.text);
  return event;
}

FlightProcess ProcessOf(const std::string& name, const std::string& track, std::uint64_t clock,
                        std::vector<FlightEvent> events) {
  FlightProcess process;
  process.name = name;
  process.file = name + "-1.flight";
  process.header.clock = clock;
  process.header.monotonic_ns = 1000 * kSecond;
  process.header.realtime_ns = kDay;
  process.tracks = {{track, std::move(events), 0}};
  return process;
}

constexpr auto kCommit = MessageTypes::IndexOf<Commit>();
constexpr auto kPrepared = MessageTypes::IndexOf<Prepared>();
constexpr auto kPush = MessageTypes::IndexOf<Push>();

// A coordinator and a server whose clock is ahead of the coordinator's by `ahead`. A message takes 1 ms to the
// coordinator and 3 ms to the server.
std::vector<FlightProcess> TwoMachines(std::int64_t ahead) {
  const auto on_server = [&](std::uint64_t at) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(at) + ahead);
  };
  std::vector<FlightEvent> coordinator, server;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::uint64_t prepared = 900 * kSecond + step * 10 * kMillisecond;
    server.push_back(MessageOf(FlightKind::kSent, kPrepared, on_server(prepared), step, "coordinator"));
    coordinator.push_back(MessageOf(FlightKind::kReceived, kPrepared, prepared + kMillisecond, step, "shard-0"));
    coordinator.push_back(MessageOf(FlightKind::kSent, kCommit, prepared + 2 * kMillisecond, step, "shard-0"));
    server.push_back(
        MessageOf(FlightKind::kReceived, kCommit, on_server(prepared + 5 * kMillisecond), step, "coordinator"));
  }
  return {ProcessOf("server-0", "shard-0", 2, server), ProcessOf("coordinator", "coordinator", 1, coordinator)};
}

TEST_CASE("messages both ways bound the difference of two clocks", "[cli][flight]") {
  for (const std::int64_t ahead : {std::int64_t{0}, std::int64_t{400'000'000'000}, std::int64_t{-7'000'000}}) {
    const FlightHistory history = MergeFlights(TwoMachines(ahead));
    REQUIRE(history.clocks[0].error_ns.has_value());
    CHECK(*history.clocks[0].error_ns >= 2'000'000);  // half of both ways together
    CHECK(*history.clocks[0].error_ns < 2'010'000);
    CHECK(std::abs(history.clocks[0].offset_ns + ahead) <= *history.clocks[0].error_ns);
    CHECK(history.clocks[1].offset_ns == 0);
    CHECK(*history.clocks[1].error_ns == 0);
    REQUIRE(history.entries.size() == 12);
    for (std::size_t step = 0; step < 3; ++step) {
      const auto kind_at = [&](std::size_t i) { return history.entries[4 * step + i].event.record.kind; };
      CHECK(kind_at(0) == FlightKind::kSent);
      CHECK(kind_at(1) == FlightKind::kReceived);
      CHECK(kind_at(2) == FlightKind::kSent);
      CHECK(kind_at(3) == FlightKind::kReceived);
    }
  }
}

TEST_CASE("a clock is bounded through those between, and one without messages is not", "[cli][flight]") {
  std::vector<FlightProcess> processes = TwoMachines(50'000'000);
  std::vector<FlightEvent> worker = {MessageOf(FlightKind::kSent, kPush, 700 * kSecond, 9, "shard-0"),
                                     MessageOf(FlightKind::kReceived, MessageTypes::IndexOf<Published>(),
                                               700 * kSecond + 8 * kMillisecond, 9, "shard-0")};
  std::vector<FlightEvent>& server = processes[0].tracks[0].events;
  server.push_back(MessageOf(FlightKind::kReceived, kPush, 900 * kSecond, 9, "worker-0"));
  server.push_back(
      MessageOf(FlightKind::kSent, MessageTypes::IndexOf<Published>(), 900 * kSecond + kMillisecond, 9, "worker-0"));
  processes.push_back(ProcessOf("worker-0", "worker-0", 3, worker));
  processes.push_back(ProcessOf("worker-1", "worker-1", 4, {NoteOf(FlightKind::kInfo, kSecond, "alone")}));
  const FlightHistory history = MergeFlights(std::move(processes));
  REQUIRE(history.clocks[2].error_ns.has_value());
  CHECK(*history.clocks[2].error_ns > *history.clocks[0].error_ns);
  CHECK(std::abs(history.clocks[2].offset_ns - std::int64_t{199'950'000'000}) <= *history.clocks[2].error_ns);
  CHECK_FALSE(history.clocks[3].error_ns.has_value());
  const std::vector<std::string> lines = LinesOf(history, {});
  CHECK(lines[0].find("wrong by at most") != std::string::npos);
  CHECK(lines[3].find("time of day") != std::string::npos);
}

TEST_CASE("clocks that contradict each other have no bound", "[cli][flight]") {
  std::vector<FlightProcess> processes = TwoMachines(0);
  for (FlightEvent& event : processes[0].tracks[0].events) {
    if (event.record.kind == FlightKind::kReceived) event.record.at_ns -= 100 * kMillisecond;  // before it was sent
  }
  const FlightHistory history = MergeFlights(std::move(processes));
  CHECK_FALSE(history.clocks[0].error_ns.has_value());
}

TEST_CASE("processes of one machine are in the order of their clock", "[cli][flight]") {
  const FlightHistory history = MergeFlights(
      {ProcessOf("a", "a", 1,
                 {NoteOf(FlightKind::kInfo, 3 * kSecond, "third"), NoteOf(FlightKind::kInfo, kSecond, "first")}),
       ProcessOf("b", "b", 1, {NoteOf(FlightKind::kInfo, 2 * kSecond, "second")})});
  REQUIRE(history.entries.size() == 3);
  CHECK(TextIn(history.entries[0].event.text) == "first");
  CHECK(TextIn(history.entries[1].event.text) == "second");
  CHECK(history.entries[0].time_ns == static_cast<std::int64_t>(kDay - 999 * kSecond));
  CHECK(LinesOf(MergeFlights({}), {}).empty());
}

TEST_CASE("a filter keeps one process, one kind, or the end", "[cli][flight]") {
  const auto left = [](const FlightFilter& filter) {
    FlightHistory history = MergeFlights(TwoMachines(0));
    Filter(filter, &history);
    return history.entries.size();
  };
  CHECK(left({}) == 12);
  CHECK(left({.processes = {"coordinator"}}) == 6);
  CHECK(left({.processes = {"shard-0"}}) == 6);
  CHECK(left({.processes = {"server-0", "coordinator"}}) == 12);
  CHECK(left({.kinds = {"received"}}) == 6);
  CHECK(left({.kinds = {"Commit"}}) == 6);
  CHECK(left({.kinds = {"waits"}}) == 0);
  CHECK(left({.last_seconds = 0.006}) == 4);  // those of the last step
  CHECK(CheckKind("Commit").ok());
  CHECK(CheckKind("snapshot-begins").ok());
  CHECK(CheckKind("commit").message().find("did you mean \"Commit\"?") != std::string::npos);
}

TEST_CASE("the summary names the peer that fell silent, and who waits", "[cli][flight]") {
  std::vector<FlightProcess> processes = TwoMachines(0);
  std::vector<FlightEvent>& events = processes[1].tracks[0].events;
  events.push_back(MessageOf(FlightKind::kReceived, MessageTypes::IndexOf<Heartbeat>(), 890 * kSecond, 1, "worker-1"));
  events.push_back(NoteOf(FlightKind::kWaits, 899 * kSecond, "\"worker-1\""));
  events.push_back(NoteOf(FlightKind::kWaits, 800 * kSecond, "\"worker-0\""));
  processes[0].tracks[0].events.push_back(NoteOf(FlightKind::kWaits, 800 * kSecond, "shard 1"));
  processes[0].tracks[0].events.push_back(NoteOf(FlightKind::kWaits, 801 * kSecond, ""));
  const FlightHistory history = MergeFlights(std::move(processes));
  const std::vector<LastHeard> heard = FindLastHeard(history);
  REQUIRE(heard.size() == 3);
  CHECK(TextIn(heard[0].entry.event.record.peer) == "worker-1");
  CHECK(heard[0].before_newest_ns > 10 * static_cast<std::int64_t>(kSecond));
  const std::vector<FlightEntry> waits = FindOpenWaits(history);
  REQUIRE(waits.size() == 1);
  CHECK(TextIn(waits[0].event.text) == "\"worker-1\"");
  const std::vector<std::string> lines = LinesOf(history, {heard, waits});
  CHECK(lines.back().find("# coordinator waits for \"worker-1\"") == 0);
  const std::string json = JsonOf(history, {heard, waits});
  CHECK(json.find("\"waits\":[{") != std::string::npos);
}

TEST_CASE("a text of a peer cannot begin a line of its own", "[cli][flight]") {
  const FlightHistory history = MergeFlights(
      {ProcessOf("a", "a", 1, {NoteOf(FlightKind::kWarning, kSecond, "bad\n12:00:00  coordinator\x1b[2J")})});
  const std::vector<std::string> lines = LinesOf(history, {});
  REQUIRE(lines.size() == 2);
  CHECK(lines[1].find('\n') == std::string::npos);
  CHECK(lines[1].find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace capstan::cli
