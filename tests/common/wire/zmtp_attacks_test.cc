// Tests of what strangers can do below the messages: with handshakes, frames and commands of ZMTP, and with resets.
#include "common/wire/header_seal.h"
#include "common/wire/wire_codec.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/local_connections.h"
#include "tests/common/wire/raw_peer.h"
#include "tests/common/wire/transport_server.h"
#include "tests/common/wire/transport_tools.h"

namespace capstan {
namespace {

using namespace testing;

constexpr std::string_view kName("\xC0\x01\x02\x03\x04\x05\x06\x07", 8);  // as one that a transport of ours draws

TransportOptions Silent() { return {.heartbeat = std::chrono::hours(1)}; }  // no heartbeat while a test runs
TransportOptions Restless(int queue_messages_max = 1024) {
  return {.queue_messages_max = queue_messages_max, .heartbeat = std::chrono::milliseconds(20)};
}

std::string Repeat(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string Noise() { return RawFrame(kLast, std::string(100, 'n')); }

std::string SealedFrame(const Header& header) {
  std::vector<std::byte> bytes;
  REQUIRE(EncodeHeader(header, &bytes).ok());
  SealHeader(0, &bytes);
  return RawFrame(kLast, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void AwaitAllRead(const std::string& endpoint, const RawPeer& peer) {
  Until([&] { return BytesInKernel(endpoint, peer) == 0; });
}

// Waits until the server has sent several heartbeats to another connection, and so to all that it still has.
void AwaitHeartbeats(const Server& server) {
  RawPeer watcher = RawPeer::Connected(server.endpoint);
  REQUIRE(watcher.ReadUntil("PING", 5));
}

TEST_CASE("a peer that claims the routing id that is dealt next gets another one", "[zmtp][hostile]") {
  Server server(Silent());
  const auto meet = [&](std::string_view identity) {
    RawPeer peer = RawPeer::Connected(server.endpoint, identity);
    REQUIRE(peer.Send(SealedFrame(Ping{})));
    const std::size_t met = server.received.messages.size();
    server.PollUntil([&] { return server.received.messages.size() > met; });
    return peer;
  };
  const RawPeer first = meet({});
  std::uint64_t number = server.received.messages.back().from.value;
  std::string next(5, '\0');
  ++number;
  for (int i = 0; i < 4; ++i) next[static_cast<std::size_t>(4 - i)] = static_cast<char>(number >> (8 * i));
  const RawPeer claims = meet(next), nameless = meet({});
  CHECK(server.received.messages[0].from != server.received.messages[1].from);
  CHECK(server.received.messages[1].from != server.received.messages[2].from);
  server.CheckServes();
}

TEST_CASE("a routing id longer than ZMTP allows ends the connection", "[zmtp][hostile]") {
  Server server(Silent());
  RawPeer peer = RawPeer::Greeted(server.endpoint);
  REQUIRE(peer.Send(Ready("DEALER", std::string(256, '\xC0'))));
  peer.ReadToTheEnd();
  server.CheckServes();
}

TEST_CASE("a connection that was taken over and is reset ends at once, and nothing else does", "[zmtp][hostile]") {
  Server server(Restless());
  RawPeer first = RawPeer::Connected(server.endpoint, kName);
  REQUIRE(first.Send(Noise()));
  server.PollUntil([&] { return server.counters.decode_errors == 1; });
  RawPeer second = RawPeer::Connected(server.endpoint, kName);
  REQUIRE(second.Send(Noise()));
  server.PollUntil([&] { return server.counters.decode_errors == 2; });
  REQUIRE(first.Send(Noise()));  // it has no queue any more
  AwaitAllRead(server.endpoint, first);
  const int descriptor = DescriptorTo(server.endpoint, first.own_port());
  first.Reset();
  Until([&] { return IsClosed(descriptor); });
  AwaitHeartbeats(server);
  server.CheckServes();
}

TEST_CASE("a connection whose queue is full and that is reset ends at once", "[zmtp][hostile]") {
  Server server(Restless(4));
  RawPeer peer = RawPeer::Connected(server.endpoint, kName);
  REQUIRE(peer.Send(Repeat(10, Noise())));
  AwaitAllRead(server.endpoint, peer);
  const int descriptor = DescriptorTo(server.endpoint, peer.own_port());
  peer.Reset();
  Until([&] { return IsClosed(descriptor); });
  AwaitHeartbeats(server);
  server.PollUntil([&] { return server.counters.decode_errors == 4; });
  server.CheckServes();
}

TEST_CASE("a PING behind a full queue of a connection that was reset is not answered", "[zmtp][hostile]") {
  TransportOptions options = Silent();
  options.queue_messages_max = 4;
  Server server(options);
  RawPeer peer = RawPeer::Connected(server.endpoint, kName);
  REQUIRE(peer.Send(Repeat(5, Noise()) + PingCommand() + Repeat(2, Noise())));
  AwaitAllRead(server.endpoint, peer);
  peer.Reset();
  server.PollUntil([&] { return server.counters.decode_errors >= 4; });
  server.CheckServes();
}

TEST_CASE("a client whose queue was full when its connection broke goes on with the next one", "[zmtp][hostile]") {
  const Listener listener;
  TransportCounters counters;
  TransportOptions options = Silent();
  options.queue_messages_max = 4;
  const std::unique_ptr<Transport> client = CreateZmqTransport(options, &counters);
  REQUIRE(client->Connect(listener.endpoint).ok());
  const auto accepted = [&] {
    RawPeer peer(listener.Accept());
    peer.Greet();
    REQUIRE(peer.Send(Ready("ROUTER", {})));
    REQUIRE(peer.ReadUntil("READY"));
    return peer;
  };
  RawPeer first = accepted();
  REQUIRE(first.Send(Repeat(10, Noise())));
  AwaitAllRead(listener.endpoint, first);
  first.Reset();
  RawPeer second = accepted();
  Recorder received;
  RunUntil({{client.get(), &received}}, [&] { return counters.decode_errors == 4; });
  REQUIRE(second.Send(SealedFrame(Ping{})));
  RunUntil({{client.get(), &received}}, [&] { return received.messages.size() == 1; });
}

TEST_CASE("a PING or another command that is too short ends the connection and is not answered", "[zmtp][hostile]") {
  Server server(Silent());
  for (const std::string& command :
       {std::string("\4PING"), std::string("\4PING\0", 6), std::string("\4PIN"), std::string()}) {
    INFO("a command of " << command.size() << " bytes");
    RawPeer peer = RawPeer::Connected(server.endpoint);
    REQUIRE(peer.Send(RawFrame(kCommand, command)));
    peer.ReadToTheEnd();
    CHECK(peer.CountReceived("PONG") == 0);
  }
  server.CheckServes();
}

TEST_CASE("a PING is answered with its context, and a flood of them with a few", "[zmtp][hostile]") {
  Server server(Silent());
  RawPeer peer = RawPeer::Connected(server.endpoint);
  REQUIRE(peer.Send(PingCommand("context of a PING")));  // the seventeenth byte is cut off
  REQUIRE(peer.ReadUntil("\4PONGcontext of a PIN"));
  CHECK(peer.CountReceived("a PING") == 0);
  for (int i = 0; i < 100; ++i) REQUIRE(peer.Send(Repeat(200, PingCommand("0123456789abcdef"))));
  REQUIRE(peer.Send(SealedFrame(Ping{})));
  server.PollUntil([&] { return !server.received.messages.empty(); });
  const Header last{Shutdown{}};
  REQUIRE(server.transport->Send(server.received.messages.back().from, {last, {}}).ok());
  REQUIRE(peer.ReadUntil(SealedFrame(last)));
  CHECK(peer.CountReceived("PONG") <= 256);
  server.CheckServes();
}

TEST_CASE("commands are no messages, whatever their names", "[zmtp][hostile]") {
  Server server(Silent());
  RawPeer peer = RawPeer::Connected(server.endpoint);
  for (const char* name : {"\x09SUBSCRIBE", "\6CANCEL", "\5READY", "\5ERROR", "\4PONG", "\7UNKNOWN"}) {
    REQUIRE(peer.Send(RawFrame(kCommand, name) + RawFrame(kCommand | kMore, name)));
  }
  REQUIRE(peer.Send(SealedFrame(Ping{})));
  server.PollUntil([&] { return !server.received.messages.empty(); });
  CHECK(server.counters.decode_errors == 0);
  CHECK(server.counters.extra_frames == 0);
}

TEST_CASE("a message of endlessly many frames costs its sender the connection", "[zmtp][hostile]") {
  Server server(Silent());
  RawPeer peer = RawPeer::Connected(server.endpoint);
  REQUIRE(peer.Send(Repeat(9, RawFrame(kMore, {}))));
  peer.ReadToTheEnd();
  server.CheckServes();
  CHECK(server.counters.decode_errors == 0);
}

TEST_CASE("the frames of a message may have twice the bytes of the largest frame", "[zmtp][hostile]") {
  TransportOptions options = Silent();
  options.frame_bytes_max = 1000;
  Server server(options);
  const std::string part(900, 'p');
  RawPeer peer = RawPeer::Connected(server.endpoint);
  REQUIRE(peer.Send(RawFrame(kMore, part) + RawFrame(kLast, part)));
  server.PollUntil([&] { return server.counters.decode_errors == 1; });
  REQUIRE(peer.Send(RawFrame(kMore, part) + RawFrame(kMore, part) + RawFrame(kLast, part)));
  peer.ReadToTheEnd();
  CHECK(server.counters.decode_errors == 1);
}

TEST_CASE("a connection is not read while its unread messages have twice the bytes of the largest frame",
          "[zmtp][hostile]") {
  constexpr std::size_t kFrame = 100'000, kMost = std::size_t{64} << 20;
  TransportOptions options = Restless();
  options.frame_bytes_max = kFrame;
  Server server(options);
  RawPeer peer = RawPeer::Connected(server.endpoint), watcher = RawPeer::Connected(server.endpoint);
  const std::string message = RawFrame(kLast, std::string(kFrame, 'm'));
  std::size_t sent = 0;
  for (int beat = 1; beat <= 5; ++beat) {  // the server's threads have had time to read more, if they read at all
    while (sent < kMost) {
      const std::size_t now = peer.SendNow(std::string_view(message).substr(sent % message.size()));
      if (now == 0) break;
      sent += now;
    }
    REQUIRE(watcher.ReadUntil("PING", beat));
  }
  CHECK(sent < kMost);
  CHECK(sent - static_cast<std::size_t>(BytesInKernel(server.endpoint, peer)) <= 3 * message.size());
  const std::uint64_t messages = sent / message.size();
  server.PollUntil([&] { return server.counters.decode_errors == messages; });
  server.CheckServes();
}

TEST_CASE("a handshake may have a kilobyte", "[zmtp][hostile]") {
  Server server(Silent());
  RawPeer peer = RawPeer::Greeted(server.endpoint);
  REQUIRE(peer.Send(
      RawFrame(kCommand, "\5READY" + Property("Socket-Type", "DEALER") + Property("X-Long", std::string(1100, 'x')))));
  peer.ReadToTheEnd();
  server.CheckServes();
}

// Returns what a client sends on a new connection before its first message.
std::string HandshakeOfAClient() {
  const Listener listener;
  const std::unique_ptr<Transport> client = CreateZmqTransport(Silent());
  const PeerId to_listener = *client->Connect(listener.endpoint);
  REQUIRE(client->Send(to_listener, {Ping{}, {}}).ok());
  RawPeer peer(listener.Accept());
  peer.Greet();
  REQUIRE(peer.Send(Ready("ROUTER", {})));
  const std::string message = SealedFrame(Ping{});
  REQUIRE(peer.ReadUntil(message));
  return peer.received().substr(0, peer.received().find(message));
}

TEST_CASE("a peer whose handshake was damaged in one bit keeps its name or loses the connection", "[zmtp][hostile]") {
  Server server(Silent());
  const std::string handshake = HandshakeOfAClient();
  const auto replay = [&](const std::string& bytes) {
    RawPeer peer(ConnectRaw(server.endpoint));
    REQUIRE(peer.Send(bytes));
    if (peer.ReadUntil("READY")) peer.Send(SealedFrame(Ping{}));
    peer.EndSending();
    server.PollUntil([&] { return IsReadable(peer.descriptor()); });
    server.transport->Poll({}, server.received.Callback());  // a message that came just before the end
  };
  replay(handshake);
  server.PollUntil([&] { return !server.received.messages.empty(); });
  const PeerId name = server.received.messages[0].from;
  for (std::size_t bit = 0; bit < 8 * handshake.size(); ++bit) {
    std::string damaged = handshake;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    replay(damaged);
  }
  server.CheckServes();
  std::size_t others = 0;
  for (const Received& received : server.received.messages) others += received.from == name ? 0 : 1;
  CHECK(others == 0);
  CHECK(server.counters.foreign_peers == 0);
  CHECK(server.received.messages.size() > 8 * 31);  // 31 bytes of a greeting mean nothing
}

TEST_CASE("peers of older versions of the protocol are refused", "[zmtp][hostile]") {
  Server server(Silent());
  const std::string signature("\xFF\0\0\0\0\0\0\0\1\x7F", 10);
  for (const std::string& greeting : {signature + std::string("\1\5\0\0", 4), signature + std::string("\0\5\0\0", 4),
                                      std::string("\1\0\4\0abc", 7)}) {
    RawPeer peer(ConnectRaw(server.endpoint));
    REQUIRE(peer.Send(greeting + RawFrame(kLast, "message")));
    peer.ReadToTheEnd();
  }
  server.CheckServes();
  CHECK(server.counters.decode_errors == 0);
}

}  // namespace
}  // namespace capstan
