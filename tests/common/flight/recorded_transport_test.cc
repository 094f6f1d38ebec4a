#include "common/flight/recorded_transport.h"

#include <utility>

#include "common/flight/flight_text.h"
#include "common/wire/messages.h"
#include "tests/catch.h"

namespace capstan {
namespace {

// Takes every message, and gives each back to Poll.
class Echo final : public Transport {
 public:
  Result<std::string> Bind(const std::string& endpoint) override { return endpoint; }
  Result<PeerId> Connect(const std::string&, Role) override { return PeerId{3}; }
  void Disconnect(PeerId) override { ++disconnects; }
  Status Send(PeerId, const Message& message) override {
    last = message;
    return result;
  }
  int Poll(std::chrono::nanoseconds, const OnMessage& on_message) override {
    on_message(PeerId{3}, sender, last);
    return 1;
  }
  void Wake() override { ++wakes; }

  Message last{Ping{}, {}};
  Principal sender;
  Status result;
  int disconnects = 0, wakes = 0;
};

TEST_CASE("a recorded transport passes everything on, and notes it", "[common][flight]") {
  auto owned = std::make_unique<Echo>();
  Echo* const echo = owned.get();
  FlightLane lane("worker-0");
  const std::unique_ptr<Transport> transport = RecordTransport(std::move(owned), &lane, Receiver::kShard);
  CHECK(transport->Bind("tcp://a:1").value() == "tcp://a:1");
  CHECK(transport->Connect("tcp://a:1", Role::kCoordinator).value() == PeerId{3});
  CHECK(transport->Send(PeerId{3}, {Ping{Term{1}, Generation{4}}, {}}).ok());
  int taken = 0;
  CHECK(transport->Poll({}, [&](PeerId from, const Principal&, const Message& message) {
    CHECK(from == PeerId{3});
    taken += message.header.Is<Ping>() ? 1 : 0;
  }) == 1);
  CHECK(taken == 1);
  echo->result = {Code::kBusy, "full"};
  CHECK(transport->Send(PeerId{3}, {Ping{}, {}}).code() == Code::kBusy);
  transport->Disconnect(PeerId{3});
  transport->Wake();
  CHECK(echo->disconnects == 1);
  CHECK(echo->wakes == 1);
  REQUIRE(lane.records().written() == 3);
  CHECK(lane.records().Read(0).kind == FlightKind::kSent);
  CHECK(lane.records().Read(0).generation == 4);
  CHECK(TextIn(lane.records().Read(0).peer) == "coordinator");
  CHECK(lane.records().Read(1).kind == FlightKind::kReceived);
  CHECK(lane.records().Read(2).kind == FlightKind::kNotSent);
  REQUIRE(lane.events().written() == 2);
  CHECK(lane.events().Read(0).record.kind == FlightKind::kConnects);
  CHECK(lane.events().Read(1).record.kind == FlightKind::kDisconnects);
}

TEST_CASE("messages that a sender may not send make no event and name nobody", "[common][flight]") {
  auto owned = std::make_unique<Echo>();
  Echo* const echo = owned.get();
  FlightLane lane("coordinator");
  const std::unique_ptr<Transport> transport = RecordTransport(std::move(owned), &lane, Receiver::kCoordinator);
  echo->sender.role = Role::kReader;
  Join join;
  join.worker = "worker-1";
  join.catalog.emplace_back();
  ResetDone done;
  done.shard = 3;
  int passed_on = 0;
  const auto poll = [&] { transport->Poll({}, [&](PeerId, const Principal&, const Message&) { ++passed_on; }); };
  for (const Header& header : {Header(join), Header(done), Header(Shutdown{})}) {
    echo->last = {header, {}};
    for (int i = 0; i < 100; ++i) poll();
  }
  CHECK(passed_on == 300);  // whoever polls refuses it, and says so
  CHECK(lane.events().written() == 0);
  REQUIRE(lane.records().written() == 1);
  CHECK(lane.records().Read(0).kind == FlightKind::kRefused);
  CHECK(lane.records().Read(0).count == 300);
  CHECK(TextIn(lane.records().Read(0).peer).starts_with("peer-"));
  echo->sender.role = Role::kWorker;
  echo->last = {join, {}};
  poll();
  REQUIRE(lane.events().written() == 1);
  CHECK(TextIn(lane.events().Read(0).record.peer) == "worker-1");
}

TEST_CASE("without a lane a transport stays as it is", "[common][flight]") {
  auto owned = std::make_unique<Echo>();
  const Transport* const echo = owned.get();
  CHECK(RecordTransport(std::move(owned), nullptr, Receiver::kShard).get() == echo);
}

}  // namespace
}  // namespace capstan
