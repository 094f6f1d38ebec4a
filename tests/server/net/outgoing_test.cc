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

struct Harness {
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
  Harness harness;
  harness.transport.answer = Invalid("a message of 9 + 0 bytes; each part may have 8");
  CHECK(harness.Send(2) == 0);
  CHECK(harness.Send(1) == 0);
  CHECK(!harness.outgoing.waiting());
  REQUIRE(harness.notices.size() == 1);
  CHECK(harness.notices[0].severity == Severity::kError);
  CHECK(harness.notices[0].text.find("9 + 0 bytes") != std::string::npos);
}

TEST_CASE("what waited for room and then cannot be sent is told as well") {
  Harness harness;
  harness.transport.answer = Status(Code::kBusy, "full");
  CHECK(harness.Send(1) == 1);
  CHECK(harness.outgoing.waiting());
  CHECK(harness.notices.empty());
  harness.transport.answer = Invalid("too long");
  harness.outgoing.Retry();
  CHECK(!harness.outgoing.waiting());
  CHECK(harness.notices.size() == 1);
}

TEST_CASE("an absent peer is a normal event and nothing that waits overtakes") {
  Harness harness;
  harness.transport.answer = Unreachable("gone");
  CHECK(harness.Send(3) == 0);
  CHECK(harness.notices.empty());
  std::vector<Envelope> envelopes = harness.Pings(2);
  std::vector<PeerId> gone;
  CHECK(harness.outgoing.Send(&envelopes, &gone) == 0);
  CHECK(gone == std::vector<PeerId>{{1}, {1}});
  harness.transport.answer = Status(Code::kBusy, "full");
  CHECK(harness.Send(1) == 1);
  const int sends = harness.transport.sends;
  harness.transport.answer = {};
  CHECK(harness.Send(1) == 1);
  CHECK(harness.transport.sends == sends);  // behind the first, which Retry sends
  harness.outgoing.Retry();
  CHECK(harness.transport.sends == sends + 2);
  CHECK(!harness.outgoing.waiting());
}

}  // namespace
}  // namespace capstan::server
