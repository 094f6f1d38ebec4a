// Tests of the ZeroMQ transport, most of them with strangers that send what no transport of ours would send.
#include "common/wire/zmq_transport.h"

#include <malloc.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "common/base/process_address.h"
#include "common/base/shared_memory.h"
#include "common/wire/header_seal.h"
#include "common/wire/memory_peer.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/reply_limit.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/common/wire/local_connections.h"
#include "tests/common/wire/raw_peer.h"
#include "tests/common/wire/stranger.h"
#include "tests/common/wire/transport_server.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::CallersOf;
using testing::Connection;
using testing::ConnectionsOf;
using testing::ConnectRaw;
using testing::Frames;
using testing::Listener;
using testing::MakePayload;
using testing::Noise;
using testing::PortOf;
using testing::Recorder;
using testing::RunUntil;
using testing::Sealed;
using testing::Server;
using testing::Stranger;
using testing::ZmqContext;

std::vector<std::string> CongestionControls(const std::string& endpoint) {
  std::vector<std::string> names;
  for (const Connection& connection : ConnectionsOf(endpoint)) {
    std::array<char, 16> name{};
    socklen_t size = name.size();
    if (getsockopt(connection.descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0) {
      names.emplace_back(name.data());
    }
  }
  return names;
}

TEST_CASE("a payload in the memory of a process that is gone is lost, and counted", "[zmq][shared_payloads]") {
  testing::TempFolder folder;
  TransportCounters counters;
  TransportOptions options;
  options.memory = std::make_shared<SharedMemory>();
  const auto transport = CreateZmqTransport(options, &counters);
  const std::string endpoint = transport->Bind(LocalAddress(folder.path(), "server")).value();
  const ZmqContext context;
  Stranger stranger(context.context, endpoint,
                    "\x81"
                    "1234567");
  PayloadReference reference;
  reference.connection = reference.number = 5;
  reference.size = 1 << 20;
  const auto frame = std::as_bytes(std::span(&reference, 1));
  stranger.Send({Sealed(Push(), reference.size), {}, {frame.begin(), frame.end()}});
  Recorder received;
  RunUntil({{transport.get(), &received}}, [&] { return counters.payloads_lost == 1; });
  CHECK(received.messages.empty());
  CHECK(counters.decode_errors == 0);
  CHECK(counters.messages_out == 0);  // its sender did nothing wrong
}

TEST_CASE("both ends of a connection within one machine are taken out of pacing", "[zmq]") {
  Server server;
  server.CheckServes();
  Recorder received;
  RunUntil({{server.transport.get(), &received}, {server.client.get(), &received}}, [&] {
    return CongestionControls(server.endpoint) == std::vector<std::string>{"reno", "reno"};
  });
}

TEST_CASE("a transport calls hundreds of peers, and each answers", "[common][transport]") {
  constexpr std::size_t kPeers = 400;  // above libzmq's own limit of sockets in a context
  Server server;
  const auto client = CreateZmqTransport({});
  std::vector<PeerId> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    const Result<PeerId> peer = client->Connect(server.endpoint);
    INFO(i << ": " << peer.status().message());
    REQUIRE(peer.ok());
    peers.push_back(*peer);
  }
  Recorder requests, answers;
  for (const PeerId peer : peers) REQUIRE(client->Send(peer, {Committed{42, {}, {}, {}}, {}}).ok());
  RunUntil({{server.transport.get(), &requests}}, [&] { return requests.messages.size() == kPeers; });
  for (const auto& request : requests.messages) REQUIRE(server.transport->Send(request.from, {Ping{}, {}}).ok());
  RunUntil({{client.get(), &answers}}, [&] { return answers.messages.size() == kPeers; });
  std::set<std::uint64_t> answered;
  for (const auto& answer : answers.messages) answered.insert(answer.from.value);
  CHECK(answered.size() == kPeers);
}

TEST_CASE("a transport calls as many peers as a job has shards at most", "[common][transport]") {
  constexpr rlim_t kShards = 4096, kDescriptors = 4 * kShards + 1000;
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit before = files;
  files.rlim_cur = files.rlim_max;
  if (files.rlim_max < kDescriptors || setrlimit(RLIMIT_NOFILE, &files) != 0) {
    WARN("this machine allows " << files.rlim_max << " open files, and 4,096 connections need " << kDescriptors);
    return;
  }
  {
    const testing::TempFolder folder;
    const std::string endpoint = LocalAddress(folder.path(), "nobody-is-here");
    const auto client = CreateZmqTransport({});
    Result<PeerId> peer = client->Connect(endpoint);
    for (rlim_t i = 1; i < kShards && peer.ok(); ++i) peer = client->Connect(endpoint);
    INFO(peer.status().message());
    CHECK(peer.ok());
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("connections are counted when they are made and when they are lost", "[zmq]") {
  Server server;
  server.CheckServes();
  CHECK(server.counters.connections_made == 1);
  CHECK(server.counters.connections_lost == 0);
  server.client.reset();
  server.PollUntil([&] { return server.counters.connections_lost == 1; });
  CHECK(server.counters.connections_made == 1);
}

TEST_CASE("hundreds of connections that come and go while nobody polls hold nobody up", "[zmq]") {
  Server server;
  for (int i = 0; i < 1500; ++i) close(ConnectRaw(server.endpoint));
  server.CheckServes();
}

TEST_CASE("frames of noise are counted, answered with Error, and disturb nobody", "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  RandomStream random(30);
  const std::vector<std::byte> good = Sealed(Ping{});
  std::vector<std::byte> other = Sealed(Ping{Term{1}, {}});
  other[32] ^= std::byte{2};  // a bit of its term: still a header
  std::vector<std::byte> other_opened(other.begin(), other.end() - 8);
  REQUIRE(DecodeHeader(other_opened)->Get<Ping>().term != Term{1});
  const std::vector<Frames> bad = {
      {{}},
      {Noise(3, random)},
      {Noise(64, random)},
      {Noise(100000, random)},
      {{}, good},
      {Noise(64, random), Noise(20000, random)},
      {good, Noise(5, random), Noise(5, random)},
      {good, {}, {}, {}, {}},
      {other},
      {good, Noise(20000, random)},  // it was sent without a payload
  };
  for (const Frames& frames : bad) stranger.Send(frames);
  server.PollUntil([&] { return server.counters.decode_errors == bad.size(); });
  CHECK(server.received.messages.empty());
  CHECK(server.counters.extra_frames == 1 + 3);
  server.CheckServes();
  for (std::size_t i = 0; i < bad.size(); ++i) {
    std::vector<std::byte> answer;
    testing::Until([&] { return !(answer = stranger.TryReceive()).empty(); });
    const Result<std::span<const std::byte>> header = OpenHeader(answer, 0);
    REQUIRE(header.ok());
    const Result<Header> decoded = DecodeHeader(*header);
    REQUIRE(decoded.ok());
    CHECK(decoded->Get<Error>().code == Code::kCorrupt);
  }
}

TEST_CASE("the first message of another protocol version is reported with both versions", "[common][transport]") {
  std::vector<std::string> notes;
  TransportOptions options;
  options.on_note = [&](const std::string& text) { notes.push_back(text); };
  Server server(options);
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  std::vector<std::byte> other;
  REQUIRE(EncodeHeader(Ping{}, &other).ok());
  constexpr std::array<unsigned char, 6> kBegin = {'C', 'P', 'S', 'T', kProtocolVersion, 0};
  const auto begin = std::search(other.begin(), other.end(), kBegin.begin(), kBegin.end(),
                                 [](std::byte a, unsigned char b) { return a == std::byte{b}; });
  REQUIRE(begin != other.end());
  begin[4] = std::byte{kProtocolVersion + 1};
  SealHeader(0, &other);
  stranger.Send({other});
  stranger.Send({other});
  server.PollUntil([&] { return server.counters.decode_errors == 2; });
  CHECK(server.counters.other_versions == 2);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Matchers::Contains("speaks protocol version " + std::to_string(kProtocolVersion + 1)) &&
                           Catch::Matchers::Contains("this build version " + std::to_string(kProtocolVersion)));
  server.CheckServes();
}

TEST_CASE("a flood of noise is not answered with a flood", "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  RandomStream random(31);
  constexpr std::uint64_t kFlood = 900;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < kFlood; ++i) stranger.Send({Noise(random.Below(40), random)});
  server.PollUntil([&] { return server.counters.decode_errors == kFlood; });
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  CHECK(server.counters.messages_out <= static_cast<std::uint64_t>(ReplyLimit::kPerSecond * (seconds + 1)));
  CHECK(server.counters.messages_out >= ReplyLimit::kPerSecond);
  server.CheckServes();
}

TEST_CASE("noise from a server is counted and not answered", "[common][transport][hostile]") {
  ZmqContext zmq;
  void* router = zmq_socket(zmq.context, ZMQ_ROUTER);
  REQUIRE(zmq_bind(router, "tcp://127.0.0.1:*") == 0);
  char endpoint[64];
  std::size_t size = sizeof endpoint;
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size);

  TransportCounters counters;
  const std::unique_ptr<Transport> client = CreateZmqTransport({}, &counters);
  const PeerId to_server = *client->Connect(endpoint);
  REQUIRE(client->Send(to_server, {Ping{}, {}}).ok());
  char id[256], header[1024];
  const int id_size = zmq_recv(router, id, sizeof id, 0);
  REQUIRE(id_size == 8);
  REQUIRE(zmq_recv(router, header, sizeof header, 0) > 0);
  zmq_send(router, id, 8, ZMQ_SNDMORE);
  zmq_send(router, "noise", 5, 0);
  Recorder received;
  RunUntil({{client.get(), &received}}, [&] { return counters.decode_errors == 1; });
  CHECK(received.messages.empty());
  CHECK(counters.messages_out == 1);
  zmq_close(router);
}

TEST_CASE("a routing id that none of ours would choose is refused", "[common][transport][hostile]") {
  Server server;
  ZmqContext zmq;
  std::uint64_t refused = 0;
  for (const std::string& id : {std::string("worker-1"), std::string("w"), std::string(255, 'w')}) {
    Stranger stranger(zmq.context, server.endpoint, id);
    stranger.Send({Sealed(Ping{})});
    ++refused;
    server.PollUntil([&] { return server.counters.foreign_peers == refused; });
  }
  CHECK(server.received.messages.empty());
  server.CheckServes();
}

TEST_CASE("a frame above the limit costs its sender the connection and nobody else anything",
          "[common][transport][hostile]") {
  TransportOptions options;
  (GENERATE(false, true) ? options.listen_frame_bytes_max : options.frame_bytes_max) = 1 << 20;
  Server server(options);
  ZmqContext zmq;
  Stranger stranger(zmq.context, server.endpoint);
  RandomStream random(32);
  stranger.Send({Sealed(Ping{}, (1 << 20) + 1), Noise((1 << 20) + 1, random)});
  server.CheckServes();
  server.PollUntil([&] {  // messages in flight are lost with the connection; any later one will do
    stranger.Send({Sealed(Shutdown{}), {}});
    return !server.received.messages.empty();
  });
  for (const testing::Received& received : server.received.messages) {
    CHECK(received.message.header.Is<Shutdown>());
  }
}

void Append(std::vector<std::byte>& bytes, const std::vector<std::byte>& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

TEST_CASE("a connection that ended over another protocol is made again", "[common][transport][hostile]") {
  const std::unique_ptr<Transport> client = CreateZmqTransport({});
  auto listener = std::make_unique<Listener>();
  const std::string endpoint = listener->endpoint;
  const PeerId peer = *client->Connect(endpoint);
  const int stranger = listener->Accept();
  REQUIRE(stranger >= 0);
  REQUIRE(write(stranger, "HTTP/1.1 400 Bad Request, and more than a greeting would have had, in any version", 80) ==
          80);
  char said[256];
  while (read(stranger, said, sizeof said) > 0) {  // until the client hangs up
  }
  close(stranger);
  listener.reset();

  const std::unique_ptr<Transport> server = CreateZmqTransport({});
  REQUIRE(server->Bind(endpoint).ok());
  Recorder received, answers;
  RunUntil({{server.get(), &received}, {client.get(), &answers}}, [&] {
    (void)client->Send(peer, {Ping{}, {}}).ok();
    return !received.messages.empty();
  });
}

TEST_CASE("who calls and is not answered connects again, under its own name", "[common][transport]") {
  const std::unique_ptr<Transport> server = CreateZmqTransport({});
  const std::string endpoint = *server->Bind("tcp://127.0.0.1:0");
  TransportOptions impatient;
  impatient.heartbeat = std::chrono::milliseconds(20);
  const std::unique_ptr<Transport> client = CreateZmqTransport(impatient);
  const PeerId peer = *client->Connect(endpoint);
  Recorder received, answers;
  REQUIRE(client->Send(peer, {Ping{}, {}}).ok());
  RunUntil({{server.get(), &received}, {client.get(), &answers}}, [&] { return received.messages.size() == 1; });
  const std::set<int> first = CallersOf(endpoint);
  REQUIRE(first.size() == 1);
  // The server sends no messages. But its libzmq answers every heartbeat, so the client's libzmq sees no fault.
  RunUntil({{client.get(), &answers}}, [&] { return CallersOf(endpoint) != first; });
  RunUntil({{server.get(), &received}, {client.get(), &answers}}, [&] {
    (void)server->Send(received.messages[0].from, {Ping{}, {}}).ok();
    return !answers.messages.empty();
  });
}

// Returns what a ZeroMQ peer sends first, up to a random point of the protocol, followed by noise.
std::vector<std::byte> Opening(RandomStream& random) {
  std::vector<std::byte> bytes;
  const std::uint64_t depth = random.Below(5);
  if (depth >= 1) {  // signature, version, mechanism
    bytes = std::vector<std::byte>(10);
    bytes[0] = std::byte{0xFF};
    bytes[9] = std::byte{0x7F};
    bytes.push_back(static_cast<std::byte>(random.Below(5)));
  }
  if (depth >= 2) {
    std::vector<std::byte> rest(53);
    std::memcpy(rest.data() + 1, "NULL", 4);
    bytes[10] = std::byte{3};
    rest[0] = static_cast<std::byte>(random.Below(2));
    Append(bytes, rest);
  }
  if (depth >= 3) {
    constexpr std::string_view ready(
        "\x04\x1C\x05READY\x0BSocket-Type\0\0\0\x06"
        "DEALER",
        30);
    const auto* first = reinterpret_cast<const std::byte*>(ready.data());
    bytes.insert(bytes.end(), first, first + ready.size());
  }
  for (std::uint64_t frames = depth >= 4 ? random.Below(20) : 0; frames > 0; --frames) {
    const std::vector<std::byte> body = Noise(random.Below(40), random);
    bytes.push_back(static_cast<std::byte>(random.Below(6)));  // more, large, command
    bytes.push_back(static_cast<std::byte>(body.size()));
    if (random.Below(3) == 0) {
      for (std::string_view name : {"\x04PING", "\x04PONG", "\x09SUBSCRIBE"}) {
        if (random.Below(2) != 0 || name.size() > body.size()) continue;
        bytes.back() = static_cast<std::byte>(body.size() + name.size());
        const auto* first = reinterpret_cast<const std::byte*>(name.data());
        bytes.insert(bytes.end(), first, first + name.size());
        break;
      }
    }
    Append(bytes, body);
  }
  Append(bytes, Noise(random.Below(200), random));
  return bytes;
}

TEST_CASE("raw bytes on the port disturb nobody, also while it is being closed", "[common][transport][hostile]") {
  RandomStream random(33);
  for (int round = 0; round < 5; ++round) {
    Server server;
    std::vector<int> open;
    for (int i = 0; i < 60; ++i) {
      const int fd = ConnectRaw(server.endpoint);
      const std::vector<std::byte> bytes = Opening(random);
      (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (i % 2 == 0) {
        open.push_back(fd);  // and then silence
      } else {
        close(fd);
      }
      if (i % 20 == 0) server.CheckServes();
    }
    CHECK(server.received.messages.empty());
    server.transport.reset();
    for (int fd : open) close(fd);
  }
}

std::size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST_CASE("a thousand peers that come, say a word and fall silent leave nothing behind",
          "[common][transport][hostile]") {
  Server server;
  server.CheckServes();
  ZmqContext zmq;
  std::size_t met = 0, files = 0, heap = 0;
  const auto meet_hundred = [&] {
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 100; ++i) {
      strangers.push_back(std::make_unique<Stranger>(zmq.context, server.endpoint));
      strangers.back()->Send({Sealed(Ping{})});
    }
    met += strangers.size();
    server.PollUntil([&] { return server.received.messages.size() == strangers.size(); });
    const PeerId last = server.received.messages.back().from;
    server.received.messages.clear();
    strangers.clear();
    server.PollUntil([&] { return server.transport->Send(last, {Ping{}, {}}).code() == Code::kUnreachable; });
    server.PollUntil([&] { return files == 0 || OpenFiles() <= files; });
  };
  meet_hundred();
  testing::Until([&] {  // the sockets are closed in the background
    server.transport->Poll(std::chrono::milliseconds(1), server.received.Callback());
    const std::size_t before = std::exchange(files, OpenFiles());
    return before == files;
  });
  heap = mallinfo2().uordblks;
  while (met < 1000) meet_hundred();
  CHECK(server.counters.messages_in == 1 + met);
  // Memory may grow by a hundred bytes per peer. The test polls, because libzmq frees memory in the background.
  server.PollUntil([&] { return mallinfo2().uordblks < heap + 900 * 100; });
  server.CheckServes();
}

TEST_CASE("an occupied port is named, with what to do about it", "[common][transport]") {
  Server server;
  const std::unique_ptr<Transport> second = CreateZmqTransport({});
  const Result<std::string> bound = second->Bind(server.endpoint);
  CHECK(bound.status().message() ==
        "cannot listen on " + server.endpoint +
            ": address already in use; stop the process that holds it or choose another port");
}

TEST_CASE("counters add up", "[common][transport]") {
  TransportCounters at_client, at_server;
  TransportOptions options;
  const std::unique_ptr<Transport> server = CreateZmqTransport(options, &at_server);
  const std::unique_ptr<Transport> client = CreateZmqTransport(options, &at_client);
  const PeerId to_server = *client->Connect(*server->Bind("tcp://127.0.0.1:0"));
  for (std::size_t i = 0; i < 10; ++i) REQUIRE(client->Send(to_server, {Push{}, MakePayload(1000 * i, 1)}).ok());
  Recorder received;
  RunUntil({{server.get(), &received}}, [&] { return received.messages.size() == 10; });
  CHECK(at_client.messages_out == 10);
  CHECK(at_server.messages_in == 10);
  CHECK(at_client.payload_bytes_out == 45000);
  CHECK(at_server.payload_bytes_in == 45000);
  CHECK(at_client.header_bytes_out == at_server.header_bytes_in);
  CHECK(at_client.header_bytes_out > 0);
  CHECK(server->Send({~std::uint64_t{0}}, {Ping{}, {}}).code() == Code::kUnreachable);
  CHECK(at_server.sends_unreachable == 1);
}

}  // namespace
}  // namespace capstan
