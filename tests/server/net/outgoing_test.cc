#include "server/net/outgoing.h"
#include "common/wire/messages/shard_orders.h"

#include "tests/catch.h"

namespace capstan::server {
namespace {

// Answers every Send with `answer`.
class OneAnswer : public Transport {
 public:
  Result<std::string> Bind(const std::string& endpoint) override { return endpoint; }
  Result<PeerId> Connect(const std::string&) override { return PeerId{1}; }
  void Disconnect(PeerId) override {}
  Status Send(PeerId, const Message&) override {
    ++sends;
    return answer;
  }
  int Poll(std::chrono::nanoseconds, const OnMessage&) override { return 0; }
  void Wake() override {}

  Status answer;
  int sends = 0;
};

struct Bench {
  std::vector<Envelope> Pings(int count) {
    Outbox out;
    for (int i = 0; i < count; ++i) out.Send(PeerId{1}, Ping{});
    return out.envelopes;
  }
  std::size_t Send(int count) {
    std::vector<Envelope> envelopes = Pings(count);
    return outgoing.Send(&envelopes);
  }

  OneAnswer transport;
  monitoring::TransportMetrics metrics;
  std::vector<Notice> notices;
  Outgoing outgoing{&transport, &metrics, [this](const Notice& notice) { notices.push_back(notice); }};
};

TEST_CASE("a message that can never be sent is told to people once and does not wait") {
  Bench bench;
  bench.transport.answer = Invalid("a message of 9 + 0 bytes; each part may have 8");
  CHECK(bench.Send(2) == 0);
  CHECK(bench.Send(1) == 0);
  CHECK(!bench.outgoing.waiting());
  REQUIRE(bench.notices.size() == 1);
  CHECK(bench.notices[0].severity == Severity::kError);
  CHECK(bench.notices[0].text.find("9 + 0 bytes") != std::string::npos);
}

TEST_CASE("what waited for room and then cannot be sent is told as well") {
  Bench bench;
  bench.transport.answer = Status(Code::kBusy, "full");
  CHECK(bench.Send(1) == 1);
  CHECK(bench.outgoing.waiting());
  CHECK(bench.notices.empty());
  bench.transport.answer = Invalid("too long");
  bench.outgoing.Retry();
  CHECK(!bench.outgoing.waiting());
  CHECK(bench.notices.size() == 1);
}

TEST_CASE("an absent peer is a normal event and nothing that waits overtakes") {
  Bench bench;
  bench.transport.answer = Unreachable("gone");
  CHECK(bench.Send(3) == 0);
  CHECK(bench.notices.empty());
  bench.transport.answer = Status(Code::kBusy, "full");
  CHECK(bench.Send(1) == 1);
  const int sends = bench.transport.sends;
  bench.transport.answer = {};
  CHECK(bench.Send(1) == 1);
  CHECK(bench.transport.sends == sends);  // behind the first, which Retry sends
  bench.outgoing.Retry();
  CHECK(bench.transport.sends == sends + 2);
  CHECK(!bench.outgoing.waiting());
}

}  // namespace
}  // namespace capstan::server
