#include "common/flight/flight_lane.h"

#include <string>
#include <vector>

#include "common/flight/flight_notes.h"
#include "common/flight/flight_text.h"
#include "common/wire/messages.h"
#include "tests/catch.h"

namespace capstan {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PeerId kWorker{77}, kOther{78};

Header PushOf(std::uint64_t step, std::uint64_t generation = 1) {
  Push push;
  push.generation = {generation};
  push.session = {5};
  push.step = {step};
  return push;
}

template <class Ring>
auto ValuesOf(const Ring& ring) {
  std::vector<decltype(ring.Read(0))> values;
  for (std::uint64_t number = 0; number < ring.written(); ++number) {
    if (ring.Holds(number)) values.push_back(ring.Read(number));
  }
  return values;
}

struct Harness {
  FlightLane lane{"shard-0"};
  Instant now = seconds(100);

  void Receive(const Header& header, PeerId from = kWorker, Instant later = {}) {
    now += later;
    lane.Received(from, header, now);
  }
  std::vector<FlightRecord> Records() const { return ValuesOf(lane.records()); }
  std::vector<FlightEvent> Events() const { return ValuesOf(lane.events()); }
};

TEST_CASE("all pushes of a step from one worker are one record with their count", "[common][flight]") {
  Harness harness;
  for (int i = 0; i < 300; ++i) harness.Receive(PushOf(12), kWorker, milliseconds(1));
  REQUIRE(harness.Records().size() == 1);
  const FlightRecord record = harness.Records().front();
  CHECK(record.kind == FlightKind::kReceived);
  CHECK(MessageName(record.message) == "Push");
  CHECK(record.count == 300);
  CHECK(record.position == 12);
  CHECK(record.position_span == 0);
  CHECK(record.last_count == 300);
  CHECK(record.at_ns == 100'001'000'000);
  CHECK(record.lasted_us == 299'000);
}

TEST_CASE("messages of two peers that alternate are counted apart", "[common][flight]") {
  Harness harness;
  for (int i = 0; i < 10; ++i) {
    harness.Receive(PushOf(1), kWorker);
    harness.Receive(PushOf(1), kOther);
    harness.lane.Sent(kWorker, Staged{}, Code::kOk, harness.now);
  }
  REQUIRE(harness.Records().size() == 3);
  for (const FlightRecord& record : harness.Records()) CHECK(record.count == 10);
}

TEST_CASE("each of 200 peers that alternate has one record of a step", "[common][flight]") {
  for (const std::uint64_t apart : {std::uint64_t{1}, std::uint64_t{1024}, std::uint64_t{0x9E3779B97F4A7C15}}) {
    Harness harness;
    for (int round = 0; round < 20; ++round) {
      for (std::uint64_t peer = 1; peer <= 200; ++peer) harness.Receive(PushOf(1), PeerId{peer * apart});
    }
    CHECK(harness.lane.records().written() <= 210);
  }
}

TEST_CASE("steps within two seconds share a record, which counts those of the last step", "[common][flight]") {
  Harness harness;
  for (std::uint64_t step = 3; step < 6; ++step) {
    for (std::uint64_t i = 0; i < step; ++i) harness.Receive(PushOf(step), kWorker, milliseconds(10));
  }
  REQUIRE(harness.Records().size() == 1);
  CHECK(harness.Records().front().count == 12);
  CHECK(harness.Records().front().position_span == 2);
  CHECK(harness.Records().front().last_count == 5);
  harness.Receive(PushOf(6), kWorker, seconds(1));
  CHECK(harness.Records().size() == 1);
  harness.Receive(PushOf(7), kWorker, seconds(1));
  CHECK(harness.Records().size() == 2);
}

TEST_CASE("a generation, another verdict and an earlier step begin a record", "[common][flight]") {
  Harness harness;
  harness.Receive(PushOf(5));
  harness.Receive(PushOf(5, 2));
  harness.Receive(PushOf(4, 2));
  CHECK(harness.Records().size() == 3);
  Commit commit;
  harness.Receive(commit);
  commit.action = StepAction::kSkip;
  harness.Receive(commit);
  CHECK(harness.Records().size() == 5);
}

TEST_CASE("records begin together at the same steps, and say whether the step is new", "[common][flight]") {
  Harness harness;
  harness.Receive(PushOf(60));
  harness.Receive(PushOf(63), kWorker, milliseconds(1100));
  harness.Receive(PushOf(64), kWorker, milliseconds(1));
  REQUIRE(harness.Records().size() == 2);
  CHECK((harness.Records()[0].flags & kFlightBegins) == 0);  // this process may have begun in the middle of step 60
  CHECK(harness.Records()[1].position == 64);
  CHECK((harness.Records()[1].flags & kFlightBegins) != 0);
  harness.Receive(PushOf(64), kWorker, FlightLane::kSameStep + seconds(1));
  REQUIRE(harness.Records().size() == 3);
  CHECK((harness.Records()[2].flags & kFlightBegins) == 0);
}

TEST_CASE("a full ring keeps the newest records, and counting goes on in a new one", "[common][flight]") {
  Harness harness;
  harness.Receive(PushOf(7));
  for (std::uint64_t i = 0; i < kFlightRecordsMax + 5; ++i) harness.Receive(PushOf(1), PeerId{1000 + i});
  const std::vector<FlightRecord> records = harness.Records();
  CHECK(records.size() == kFlightRecordsMax);
  CHECK(harness.lane.records().written() == kFlightRecordsMax + 6);
  CHECK(records.front().position == 1);
  harness.Receive(PushOf(7));
  CHECK(harness.Records().back().position == 7);
  CHECK(harness.Records().back().count == 1);
}

TEST_CASE("a flood of messages overwrites no rare event", "[common][flight]") {
  Harness harness;
  Reset reset;
  reset.generation = {2};
  reset.fetch_key = 4711;
  harness.Receive(reset, kOther);
  for (std::uint64_t i = 0; i < 2 * kFlightRecordsMax; ++i) harness.Receive(PushOf(1), PeerId{1000 + i});
  REQUIRE(harness.Events().size() == 1);
  CHECK(MessageName(harness.Events().front().record.message) == "Reset");
  CHECK(harness.Events().front().record.generation == 2);
  CHECK(TextIn(harness.Events().front().text) == "serve no snapshot, timeline 0, term 0");
}

TEST_CASE("a flood of rare messages is counted as others are", "[common][flight]") {
  Harness harness;
  Error error;
  error.code = Code::kBusy;
  error.message = "full";
  for (int i = 0; i < 1000; ++i) harness.Receive(error);
  CHECK(harness.Events().size() == FlightLane::kRareMax);
  REQUIRE(harness.Records().size() == 1);
  CHECK(harness.Records().front().count == 1000 - FlightLane::kRareMax);
  CHECK(harness.Records().front().code == static_cast<std::uint8_t>(Code::kBusy));
  harness.Receive(error, kWorker, seconds(3));
  CHECK(harness.Events().size() == FlightLane::kRareMax + 1);
}

TEST_CASE("peers have the names that messages tell", "[common][flight]") {
  Harness harness;
  const auto last_peer = [&] { return std::string(TextIn(harness.Records().back().peer)); };
  harness.Receive(PushOf(1));
  CHECK(last_peer().starts_with("peer-"));
  LiveSessions live;
  LiveSession& session = live.sessions.emplace_back();
  session.session = {5};
  session.worker = "worker-1";
  harness.Receive(live, kOther);
  harness.Receive(PushOf(2, 2));
  CHECK(last_peer() == "worker-1");
  Staged staged;
  staged.shard = 3;
  harness.Receive(staged, kOther);
  CHECK(last_peer() == "shard-3");
  harness.lane.Connected(PeerId{9}, "tcp://10.0.0.1:5#key", "10.0.0.1:5", harness.now);
  CHECK(TextIn(harness.Events().back().record.peer) == "10.0.0.1:5");
  View view;
  view.shards = {{6, Incarnation{1}, "tcp://10.0.0.1:6"}};
  harness.Receive(view, PeerId{10});
  harness.lane.Connected(PeerId{11}, "tcp://10.0.0.1:6", "10.0.0.1:6", harness.now);
  CHECK(TextIn(harness.Events().back().record.peer) == "shard-6");
}

TEST_CASE("a long name keeps its end, and many names stay bounded", "[common][flight]") {
  Harness harness;
  Join join;
  join.worker = "gpu-cluster-of-the-north-48213";
  harness.Receive(join);
  CHECK(TextIn(harness.Events().back().record.peer) == "gpu-clus~north-48213");
  PeerNames names;
  for (std::uint64_t i = 0; i < 3 * PeerNames::kNamesMax; ++i) names.Connected(PeerId{i}, "", "a");
  CHECK(TextIn(names.Of(PeerId{0})).starts_with("peer-"));
  CHECK(TextIn(names.Of(PeerId{3 * PeerNames::kNamesMax - 1})) == "a");
}

TEST_CASE("a message that the transport did not take is recorded with the reason", "[common][flight]") {
  Harness harness;
  harness.lane.Sent(kWorker, Staged{}, Code::kUnreachable, harness.now);
  CHECK(harness.Records().front().kind == FlightKind::kNotSent);
  CHECK(harness.Records().front().code == static_cast<std::uint8_t>(Code::kUnreachable));
}

TEST_CASE("every type of message has a name, and all names differ", "[common][flight]") {
  std::vector<std::string> names;
  for (std::size_t type = 0; !MessageName(type).empty(); ++type) names.emplace_back(MessageName(type));
  CHECK(names.size() == std::variant_size_v<MessageVariant>);
  CHECK(names.front() == "Ping");
  CHECK(names.back() == "TeamPiece");
}

TEST_CASE("a wait is noted after a second, and when it ends", "[common][flight]") {
  Harness harness;
  FlightNotes notes(&harness.lane);
  std::string whom = "worker-1";
  const auto look = [&](std::uint64_t step) {
    harness.now += milliseconds(600);
    notes.Waits([&] { return whom; }, harness.now, step, Generation{1});
  };
  look(4);
  look(4);
  CHECK(harness.Events().empty());
  look(4);
  REQUIRE(harness.Events().size() == 1);
  CHECK(TextIn(harness.Events().back().text) == "worker-1");
  for (int i = 0; i < 10; ++i) look(4);
  CHECK(harness.Events().size() == 1);
  look(5);
  REQUIRE(harness.Events().size() == 2);
  CHECK(TextIn(harness.Events().back().text).empty());
  whom = "";
  for (int i = 0; i < 10; ++i) look(5);
  CHECK(harness.Events().size() == 2);
}

TEST_CASE("a state is noted when it or the generation changes", "[common][flight]") {
  Harness harness;
  FlightNotes notes(&harness.lane);
  for (std::uint64_t step = 0; step < 5; ++step) notes.State("runs", harness.now, step, Generation{1});
  notes.State("runs", harness.now, 5, Generation{2});
  notes.State("failed", harness.now, 5, Generation{2});
  CHECK(harness.Events().size() == 3);
  FlightNotes nothing(nullptr);
  nothing.State("runs", harness.now, 0, {});
  nothing.Log({Severity::kInfo, "a line"}, harness.now);
}

}  // namespace
}  // namespace capstan
