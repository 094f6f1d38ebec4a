#include "server/net/outgoing.h"

#include <algorithm>
#include <set>
#include <string>

#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

// Answers every Send with `answer`, but kBusy to the peers in `slow`. Holds the payloads that it was given.
class OneAnswer : public Transport {
 public:
  Result<std::string> Bind(const std::string& endpoint) override { return endpoint; }
  Result<PeerId> Connect(const std::string&, Role) override { return PeerId{1}; }
  void Disconnect(PeerId) override {}
  Status Send(PeerId to, const Message& message) override {
    ++sends;
    if (slow.contains(to)) return Status(Code::kBusy, "full");
    if (answer.ok()) sent.push_back({to, message});
    return answer;
  }
  int Poll(std::chrono::nanoseconds, const OnMessage&) override { return 0; }
  void Wake() override {}

  std::size_t SentTo(PeerId to) const {
    return static_cast<std::size_t>(
        std::count_if(sent.begin(), sent.end(), [&](const Envelope& envelope) { return envelope.to == to; }));
  }

  Status answer;
  std::set<PeerId> slow;
  std::vector<Envelope> sent;
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
  void Send(PeerId to, Header header, Slice payload = {}) {
    Outbox out;
    out.Send(to, std::move(header), std::move(payload));
    (void)outgoing.Send(&out.envelopes);
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

constexpr PeerId kSlow{1}, kHonest{2};

TEST_CASE("a peer that does not read loses only its own messages", "[server][net]") {
  Harness harness;
  harness.transport.slow = {kSlow, kHonest};
  for (std::size_t i = 0; i < 5000; ++i) harness.Send(kSlow, Ping{});
  CHECK(harness.metrics.send_queue_messages.value() == Outgoing::kPeerMessagesMax);
  CHECK(harness.outgoing.dropped() == 5000 - Outgoing::kPeerMessagesMax);
  harness.Send(kHonest, Ping{});
  harness.transport.slow = {kSlow};
  harness.outgoing.Retry();
  CHECK(harness.transport.SentTo(kHonest) == 1);
  harness.transport.slow.clear();
  harness.outgoing.Retry();
  CHECK(harness.transport.SentTo(kSlow) == Outgoing::kPeerMessagesMax);
  CHECK(!harness.outgoing.waiting());
}

TEST_CASE("large headers are bounded by their bytes, and one may always wait", "[server][net]") {
  Harness harness;
  harness.transport.slow = {kSlow};
  View view;
  view.job_file = std::string(kJobFileBytesMax, 'x');
  for (int i = 0; i < 100; ++i) harness.Send(kSlow, view);
  CHECK(harness.metrics.send_queue_messages.value() <= Outgoing::kPeerBytesMax / kJobFileBytesMax);
  CHECK(harness.metrics.send_queue_messages.value() > 0);
}

TEST_CASE("all queues together are bounded, and the longest loses", "[server][net]") {
  Harness harness;
  harness.transport.slow = {kHonest};
  harness.Send(kHonest, Ping{});
  constexpr std::size_t kPeers = 2 * Outgoing::kMessagesMax / Outgoing::kPeerMessagesMax;
  for (std::uint64_t peer = 10; peer < 10 + kPeers; ++peer) {
    harness.transport.slow.insert(PeerId{peer});
    for (std::size_t i = 0; i < Outgoing::kPeerMessagesMax; ++i) harness.Send(PeerId{peer}, Ping{});
    REQUIRE(harness.metrics.send_queue_messages.value() <= Outgoing::kMessagesMax);
  }
  harness.transport.slow.clear();
  harness.outgoing.Retry();
  CHECK(harness.transport.SentTo(kHonest) == 1);
  CHECK(harness.transport.sent.size() == Outgoing::kMessagesMax);
}

TEST_CASE("a peer that takes no payload is sent no more of them, and other peers are", "[server][net]") {
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  Harness harness;
  BufferPool pool(kBlockBytes);
  for (int i = 0; i < 100; ++i) harness.Send(kSlow, Weights{}, WholeBuffer(pool.Take()));
  CHECK(harness.transport.SentTo(kSlow) == PayloadsInFlight::kPeerBytesMax / kBlockBytes);
  CHECK(pool.in_use_bytes() == PayloadsInFlight::kPeerBytesMax);
  harness.Send(kSlow, Ping{});  // has no payload
  CHECK(harness.transport.sent.back().message.header.Is<Ping>());
  harness.Send(kHonest, Weights{}, WholeBuffer(pool.Take()));
  CHECK(harness.transport.SentTo(kHonest) == 1);
  harness.transport.sent.clear();  // the socket has sent them
  CHECK(pool.in_use_bytes() == 0);
  harness.Send(kSlow, Weights{}, WholeBuffer(pool.Take()));
  CHECK(harness.transport.SentTo(kSlow) == 1);
}

}  // namespace
}  // namespace capstan::server
