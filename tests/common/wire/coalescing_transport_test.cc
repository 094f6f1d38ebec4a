// Tests of the frames with several messages that a ZeroMQ transport sends and receives.
#include <zmq.h>

#include "common/wire/coalesced_frame.h"
#include "common/wire/memory_peer.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/stranger.h"
#include "tests/common/wire/transport_server.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/patience.h"

namespace capstan {
namespace {

using testing::Frames;
using testing::MakePayload;
using testing::Noise;
using testing::Recorder;
using testing::RunUntil;
using testing::Sealed;
using testing::Server;
using testing::Stranger;
using testing::ZmqContext;

TransportOptions Coalescing() {
  TransportOptions options;
  options.coalesces = true;
  return options;
}

// Returns the terms of the Pings in a frame, of one or of several.
std::vector<std::uint64_t> TermsIn(const std::vector<std::byte>& frame) {
  const auto term = [](std::span<const std::byte> sealed) {
    const Result<std::span<const std::byte>> header = OpenHeader(sealed, 0);
    REQUIRE(header.ok());
    return DecodeHeader(*header)->Get<Ping>().term.value;
  };
  if (!CoalescedFrameReader::IsCoalesced(frame)) return {term(frame)};
  std::vector<std::uint64_t> terms;
  CoalescedFrameReader reader(frame);
  for (;;) {
    const auto next = reader.Next();
    REQUIRE(next.ok());
    if (!next->has_value()) return terms;
    terms.push_back(term((*next)->header));
  }
}

std::vector<std::byte> AwaitFrame(Stranger* stranger) {
  std::vector<std::byte> frame;
  testing::Until([&] { return !(frame = stranger->TryReceive()).empty(); });
  return frame;
}

// A transport that coalesces, and a stranger from whom it has received a message.
struct CoalescingServer {
  CoalescingServer() {
    stranger.Send({Sealed(Ping{})});
    server.PollUntil([&] { return server.received.messages.size() == 1; });
    peer = server.received.messages[0].from;
  }
  void Send(Header header, Slice payload = {}) {
    REQUIRE(server.transport->Send(peer, {std::move(header), std::move(payload)}).ok());
  }
  void Poll() { server.transport->Poll({}, server.received.Callback()); }

  Server server{Coalescing()};
  ZmqContext zmq;
  Stranger stranger{zmq.context, server.endpoint,
                    "\x81"
                    "1234567"};
  PeerId peer;
};

TEST_CASE("small messages to one peer leave in one frame, with the next Poll", "[common][transport]") {
  CoalescingServer with;
  for (std::uint64_t term = 1; term <= 3; ++term) with.Send(Ping{Term{term}, {}});
  with.Poll();
  CHECK(TermsIn(AwaitFrame(&with.stranger)) == std::vector<std::uint64_t>{1, 2, 3});
  std::uint64_t term = 4;
  std::vector<std::uint64_t> sent, arrived;
  for (; term < 200; ++term) {  // more than fit into one: the first ones do not wait
    with.Send(Ping{Term{term}, {}});
    sent.push_back(term);
  }
  with.Poll();
  while (arrived.size() < sent.size()) {
    const std::vector<std::byte> frame = AwaitFrame(&with.stranger);
    CHECK(frame.size() <= CoalescedFrame::kBytesMax);
    const std::vector<std::uint64_t> terms = TermsIn(frame);
    CHECK(terms.size() > 1);
    arrived.insert(arrived.end(), terms.begin(), terms.end());
  }
  CHECK(arrived == sent);
}

TEST_CASE("held messages leave before a message that needs a frame of its own", "[common][transport]") {
  CoalescingServer with;
  Error error;
  error.code = Code::kInvalid;
  with.Send(Ping{Term{1}, {}});
  with.Send(error);  // a process of another version can read it
  with.Send(Ping{Term{2}, {}});
  with.Send(Push{}, MakePayload(5000, 1));
  CHECK(TermsIn(AwaitFrame(&with.stranger)) == std::vector<std::uint64_t>{1});
  CHECK(AwaitFrame(&with.stranger) == Sealed(error));
  CHECK(TermsIn(AwaitFrame(&with.stranger)) == std::vector<std::uint64_t>{2});
  CHECK(AwaitFrame(&with.stranger) == Sealed(Push{}, 5000));
}

TEST_CASE("an answer leaves before a message with a long payload is handled", "[common][transport]") {
  CoalescingServer with;
  constexpr std::uint64_t kPairs = 8;  // from the second one on, both messages have arrived before one is handled
  for (std::uint64_t term = 1; term <= kPairs; ++term) {
    with.stranger.Send({Sealed(Ping{Term{term}, {}})});
    with.stranger.Send({Sealed(Push{}, 1 << 17), std::vector<std::byte>(1 << 17)});
  }
  std::uint64_t pairs = 0;
  testing::Until([&] {
    with.server.transport->Poll(std::chrono::milliseconds(1), [&](PeerId from, const Principal&, Message message) {
      if (message.header.Is<Ping>()) REQUIRE(with.server.transport->Send(from, {message.header, {}}).ok());
      if (message.header.Is<Push>()) CHECK(TermsIn(AwaitFrame(&with.stranger)) == std::vector{++pairs});
    });
    return pairs == kPairs;
  });
}

TEST_CASE("held messages are sent when a transport ends or disconnects", "[common][transport]") {
  Server server;
  for (const bool ends : {false, true}) {
    std::unique_ptr<Transport> client = CreateZmqTransport(Coalescing());
    const PeerId to_server = *client->Connect(server.endpoint);
    REQUIRE(client->Send(to_server, {Ping{Term{1}, {}}, {}}).ok());
    server.PollUntil([&] { return server.received.messages.size() == 1; });
    Recorder answers;
    REQUIRE(server.transport->Send(server.received.messages[0].from, {Ping{}, {}}).ok());
    RunUntil({{client.get(), &answers}}, [&] { return answers.messages.size() == 1; });
    server.received.messages.clear();
    REQUIRE(client->Send(to_server, {Ping{Term{2}, {}}, {}}).ok());
    ends ? client.reset() : client->Disconnect(to_server);
    server.PollUntil([&] { return server.received.messages.size() == 1; });
    CHECK(server.received.messages[0].message.header.Get<Ping>().term == Term{2});
    server.received.messages.clear();
  }
}

TEST_CASE("messages that are held for a peer that is gone are dropped, and counted", "[common][transport]") {
  Server server(Coalescing());
  REQUIRE(server.client->Send(server.to_server, {Ping{}, {}}).ok());
  server.PollUntil([&] { return server.received.messages.size() == 1; });
  const PeerId gone = server.received.messages[0].from;
  server.client.reset();
  server.PollUntil([&] {
    REQUIRE(server.transport->Send(gone, {Ping{}, {}}).ok());
    REQUIRE(server.transport->Send(gone, {Ping{}, {}}).ok());
    return server.counters.sends_unreachable >= 2;
  });
  CHECK(server.counters.sends_unreachable % 2 == 0);
}

TEST_CASE("a full queue delays small messages and loses none", "[common][transport]") {
  TransportOptions options = Coalescing();
  options.queue_messages_max = 4;
  Server server(options);
  REQUIRE(server.client->Send(server.to_server, {Ping{}, {}}).ok());
  server.PollUntil([&] { return server.received.messages.size() == 1; });
  const PeerId peer = server.received.messages[0].from;
  std::uint64_t sent = 0;
  Status status;
  const auto send = [&] { return server.transport->Send(peer, {Ping{Term{sent}, {}}, {}}); };
  while (sent < 10'000'000 && (status = send()).ok()) ++sent;
  CHECK(status.code() == Code::kBusy);
  CHECK(server.counters.sends_blocked == 1);
  Recorder answers;
  testing::Until([&] {
    server.client->Poll({}, answers.Callback());
    server.transport->Poll({}, server.received.Callback());
    return answers.messages.size() >= sent;
  });
  REQUIRE(answers.messages.size() == sent);
  for (std::uint64_t i = 0; i < sent; ++i) REQUIRE(answers.messages[i].message.header.Get<Ping>().term.value == i);
  CHECK(send().ok());
}

std::vector<std::byte> FrameOf(const std::vector<std::vector<std::byte>>& headers) {
  CoalescedFrame frame;
  frame.Begin({1}, {});
  for (const std::vector<std::byte>& header : headers) frame.Add({header, {}, false});
  return {frame.bytes().begin(), frame.bytes().end()};
}

TEST_CASE("a frame of several messages ends with its first damaged one, which is answered with Error",
          "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  RandomStream random(32);
  const std::vector<std::byte> good = Sealed(Ping{Term{1}, {}});
  std::vector<std::byte> cut = FrameOf({good, good});
  cut.pop_back();
  stranger.Send({FrameOf({good, good})});
  server.PollUntil([&] { return server.received.messages.size() == 2; });
  const std::vector<std::pair<Frames, std::size_t>> bad = {
      // and how many messages are taken from it
      {{FrameOf({good, Noise(60, random), good})}, 1},
      {{cut}, 1},
      {{FrameOf({})}, 0},
      {{FrameOf(std::vector<std::vector<std::byte>>(100, good))}, 0},  // too long
      {{FrameOf({good}), Noise(10, random)}, 0},
  };
  std::size_t taken = 2, errors = 0;
  for (const auto& [frames, messages] : bad) {
    stranger.Send(frames);
    ++errors;
    taken += messages;
    server.PollUntil([&] { return server.counters.decode_errors == errors; });
    CHECK(server.received.messages.size() == taken);
    const Result<std::span<const std::byte>> header = OpenHeader(AwaitFrame(&stranger), 0);
    CHECK(header.ok());
  }
  server.CheckServes();
}

TEST_CASE("a reference is refused by a transport without shared memory", "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  PayloadReference reference;
  reference.connection = reference.number = 1;
  reference.size = 1 << 20;
  const std::vector<std::byte> header = Sealed(Push{}, reference.size);
  CoalescedFrame frame;
  frame.Begin({1}, {});
  frame.Add({header, std::as_bytes(std::span(&reference, 1)), true});
  stranger.Send({{frame.bytes().begin(), frame.bytes().end()}});
  server.PollUntil([&] { return server.counters.decode_errors == 1; });
  CHECK(server.received.messages.empty());
  server.CheckServes();
}

TEST_CASE("frames that bring nothing hold nobody up", "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  constexpr int kFrames = 500;  // more than are read in one pass
  for (int i = 0; i < kFrames; ++i) stranger.Send({FrameOf({})});
  stranger.Send({Sealed(Ping{Term{1}, {}})});
  testing::Until([&] { return server.transport->Poll(std::chrono::hours(1), server.received.Callback()) > 0; });
  CHECK(server.counters.decode_errors == kFrames);
}

// A ROUTER that shows the frames it gets from one transport.
class RawRouter {
 public:
  RawRouter(void* context, const std::string& endpoint) : socket_(zmq_socket(context, ZMQ_ROUTER)) {
    const int patience_ms = 30'000 * testing::Patience(), linger = 0;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    REQUIRE(zmq_bind(socket_, endpoint.c_str()) == 0);
  }
  ~RawRouter() { zmq_close(socket_); }
  RawRouter(const RawRouter&) = delete;
  RawRouter& operator=(const RawRouter&) = delete;

  std::string endpoint() const {
    char endpoint[64];
    std::size_t size = sizeof endpoint;
    REQUIRE(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
    return endpoint;
  }
  std::vector<std::byte> Receive() {
    std::vector<std::byte> frame(1 << 16);
    REQUIRE(zmq_recv(socket_, id_, sizeof id_, 0) == sizeof id_);
    const int size = zmq_recv(socket_, frame.data(), frame.size(), 0);
    REQUIRE(size > 0);
    frame.resize(static_cast<std::size_t>(size));
    return frame;
  }
  void Answer(const std::vector<std::byte>& frame) {
    REQUIRE(zmq_send(socket_, id_, sizeof id_, ZMQ_SNDMORE) >= 0);
    REQUIRE(zmq_send(socket_, frame.data(), frame.size(), 0) >= 0);
  }

 private:
  void* socket_;
  char id_[8] = {};
};

TEST_CASE("a peer that has sent nothing yet gets each message in a frame of its own", "[common][transport]") {
  ZmqContext zmq;
  auto router = std::make_unique<RawRouter>(zmq.context, "tcp://127.0.0.1:*");
  const std::string endpoint = router->endpoint();
  TransportCounters counters;
  const std::unique_ptr<Transport> client = CreateZmqTransport(Coalescing(), &counters);
  const PeerId to_server = *client->Connect(endpoint);
  Recorder received;
  const auto send_two = [&] {
    REQUIRE(client->Send(to_server, {Ping{Term{1}, {}}, {}}).ok());
    REQUIRE(client->Send(to_server, {Ping{Term{2}, {}}, {}}).ok());
    client->Poll({}, received.Callback());
  };
  send_two();
  CHECK(router->Receive() == Sealed(Ping{Term{1}, {}}));
  CHECK(router->Receive() == Sealed(Ping{Term{2}, {}}));
  router->Answer(Sealed(Ping{}));
  RunUntil({{client.get(), &received}}, [&] { return received.messages.size() == 1; });
  send_two();
  CHECK(TermsIn(router->Receive()) == std::vector<std::uint64_t>{1, 2});
  router.reset();  // a process of another version may come in its place
  RunUntil({{client.get(), &received}}, [&] { return counters.connections_lost > 0; });
  router = std::make_unique<RawRouter>(zmq.context, endpoint);
  send_two();
  CHECK(router->Receive() == Sealed(Ping{Term{1}, {}}));
  CHECK(router->Receive() == Sealed(Ping{Term{2}, {}}));
}

TEST_CASE("who disconnects within a frame of several messages gets no more of it", "[common][transport]") {
  ZmqContext zmq;
  RawRouter router(zmq.context, "tcp://127.0.0.1:*");
  const std::unique_ptr<Transport> client = CreateZmqTransport({});
  const PeerId to_server = *client->Connect(router.endpoint());
  REQUIRE(client->Send(to_server, {Ping{}, {}}).ok());
  (void)router.Receive();
  const std::vector<std::byte> ping = Sealed(Ping{});
  router.Answer(FrameOf({ping, ping, ping}));
  int handled = 0;
  const auto hang_up = [&](PeerId from, const Principal&, const Message&) {
    ++handled;
    client->Disconnect(from);
  };
  testing::Until([&] { return client->Poll(std::chrono::milliseconds(1), hang_up) > 0; });
  CHECK(client->Poll(std::chrono::milliseconds(5), hang_up) == 0);
  CHECK(handled == 1);
}

}  // namespace
}  // namespace capstan
