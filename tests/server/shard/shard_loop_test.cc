#include "server/shard/shard_loop.h"

#include "common/base/mailbox.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "tests/catch.h"
#include "tests/common/wire/local_connections.h"
#include "tests/common/wire/transport_tools.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;

// A shard on its own thread, and a socket that acts as its coordinator.
class LoopHarness {
 public:
  LoopHarness() {
    ShardLoopOptions options;
    options.shard.incarnation = Incarnation{7};
    options.listen = "127.0.0.1:0";
    options.coordinator = transport_->Bind("tcp://127.0.0.1:0").value().substr(std::string("tcp://").size());
    options.on_end = [this] { (void)ends_.Push(0).ok(); };
    loop = ShardLoop::Start(std::move(options), &registry_).value();
  }

  void Ping() { Send(capstan::Ping{Term{1}, {}}); }
  void Tell(Header header) { Send(std::move(header)); }
  void Refuse(Incarnation incarnation) { Send(Error{Code::kRefused, {}, incarnation, {}, {}, 0, "two of one index"}); }
  Hello NextHello() {
    std::optional<Hello> hello;
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (!hello && !loop->ended() && std::chrono::steady_clock::now() < deadline) {
      transport_->Poll(seconds(1), [&](PeerId from, const Principal&, const Message& message) {
        shard_ = from;
        if (const auto* said = message.header.As<Hello>()) hello = *said;
      });
    }
    REQUIRE(hello.has_value());
    return *hello;
  }
  bool WaitForEnd() { return ends_.PopUntil(std::chrono::steady_clock::now() + seconds(60)).has_value(); }

 private:
  void Send(Header header) { REQUIRE(transport_->Send(shard_, {std::move(header), {}}).ok()); }

  monitoring::Registry registry_;
  Mailbox<int> ends_{4};
  std::unique_ptr<Transport> transport_ = CreateZmqTransport({});
  PeerId shard_;

 public:
  std::unique_ptr<ShardLoop> loop;  // declared last, so that it ends before the members it uses
};

TEST_CASE("a refusal ends the life of a shard that it is said to, and no later one", "[server][loops]") {
  LoopHarness harness;
  const Incarnation incarnation = harness.NextHello().incarnation;
  harness.Refuse(Incarnation{incarnation.value - 1});
  harness.Ping();
  CHECK(harness.NextHello().term == Term{1});  // the shard has read both messages
  CHECK(!harness.loop->ended());
  harness.Refuse(incarnation);
  REQUIRE(harness.WaitForEnd());
  CHECK(harness.loop->outcome().code() == Code::kRefused);
  CHECK(harness.loop->outcome().message() == "the coordinator refuses this shard: two of one index");
}

TEST_CASE("a shard leaves those that it has loaded from", "[server][loops]") {
  LoopHarness harness;
  const std::unique_ptr<Transport> holder = CreateZmqTransport({});
  Reset reset;
  reset.term = Term{1};
  reset.generation = Generation{2};
  reset.timeline = TimelineFrom(reset.generation);
  reset.incarnation = harness.NextHello().incarnation;
  reset.job = JobId{1, 2};
  reset.slot_count = 1;
  reset.catalog = {{"t", {4}, {InitKind::kZeros, 0.0F}, true}};
  Reset to_snapshot = reset;
  to_snapshot.snapshot = {Generation{1}, Version{1}};
  to_snapshot.sources = {{5, holder->Bind("tcp://127.0.0.1:0").value()}};
  harness.Tell(to_snapshot);
  const auto deadline = std::chrono::steady_clock::now() + seconds(60);
  std::optional<PeerId> reader;
  while (!reader && std::chrono::steady_clock::now() < deadline) {
    holder->Poll(seconds(1), [&](PeerId from, const Principal&, const Message&) { reader = from; });
  }
  REQUIRE(reader.has_value());
  reset.generation = Generation{3};
  reset.timeline = TimelineFrom(reset.generation);  // all go back to version 0, which needs no source
  harness.Tell(reset);
  Status status;
  while (status.code() != Code::kUnreachable && std::chrono::steady_clock::now() < deadline) {
    status = holder->Send(*reader, {capstan::Ping{}, {}});
    holder->Poll(std::chrono::milliseconds(10), [](PeerId, const Principal&, const Message&) {});
  }
  CHECK(status.code() == Code::kUnreachable);
}

TEST_CASE("who sends a shard a larger frame than it takes loses the connection", "[server][loops][hostile]") {
  LoopHarness harness;
  const std::string endpoint = harness.NextHello().endpoint;
  const std::unique_ptr<Transport> worker = CreateZmqTransport({});
  const PeerId shard = *worker->Connect(endpoint);
  testing::Recorder answers;
  REQUIRE(worker->Send(shard, {Pull{}, testing::MakePayload(kFrameToShardBytesMax, 1)}).ok());
  testing::RunUntil({{worker.get(), &answers}}, [&] { return !answers.messages.empty(); });
  const std::set<int> callers = testing::CallersOf(endpoint);
  REQUIRE(callers.size() == 1);
  REQUIRE(worker->Send(shard, {Pull{}, testing::MakePayload(kFrameToShardBytesMax + 4, 1)}).ok());
  testing::RunUntil({{worker.get(), &answers}}, [&] { return testing::CallersOf(endpoint) != callers; });
  CHECK(answers.messages.size() == 1);
}

}  // namespace
}  // namespace capstan::server
