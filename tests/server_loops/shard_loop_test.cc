#include "server/shard_loop.h"

#include "common/mailbox.h"
#include "common/messages/error.h"
#include "common/messages/hello.h"
#include "common/messages/shard_orders.h"
#include "common/messages/shard_reports.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;

// A shard on its thread, and a socket that plays its coordinator.
class LoopBench {
 public:
  LoopBench() {
    ShardLoopOptions options;
    options.shard.incarnation = Incarnation{7};
    options.listen = "127.0.0.1:0";
    options.coordinator = transport_->Bind("tcp://127.0.0.1:0").value().substr(std::string("tcp://").size());
    options.on_end = [this] { (void)ends_.Push(0).ok(); };
    loop = ShardLoop::Start(std::move(options), &registry_).value();
  }

  void Ping() { Send(capstan::Ping{Term{1}, {}}); }
  void Refuse(Incarnation life) { Send(Error{Code::kRefused, {}, life, {}, {}, 0, "two of one index"}); }
  Hello NextHello() {
    std::optional<Hello> hello;
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (!hello && !loop->ended() && std::chrono::steady_clock::now() < deadline) {
      transport_->Poll(seconds(1), [&](PeerId from, const Message& message) {
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
  std::unique_ptr<ShardLoop> loop;  // before it ends, all that it uses is there
};

TEST_CASE("a refusal ends the life of a shard that it is said to, and no later one", "[server][loops]") {
  LoopBench bench;
  const Incarnation life = bench.NextHello().incarnation;
  bench.Refuse(Incarnation{life.value - 1});
  bench.Ping();
  CHECK(bench.NextHello().term == Term{1});  // it has read both
  CHECK(!bench.loop->ended());
  bench.Refuse(life);
  REQUIRE(bench.WaitForEnd());
  CHECK(bench.loop->outcome().code() == Code::kRefused);
  CHECK(bench.loop->outcome().message() == "the coordinator refuses this shard: two of one index");
}

}  // namespace
}  // namespace capstan::server
