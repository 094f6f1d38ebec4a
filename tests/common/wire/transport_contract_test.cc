// Tests that every Transport must pass. A new kind of transport gets a row in Carriers().
#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>

#include "common/base/process_address.h"
#include "common/keys/key_pair.h"
#include "common/keys/listed_admission.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::Bytes;
using testing::MakePayload;
using testing::Received;
using testing::Recorder;
using testing::RunUntil;

struct Carrier {
  std::string name;
  Role caller, called;  // the roles of the two ends, as far as the transport knows
  std::function<std::unique_ptr<Transport>(const TransportOptions&)> create;
  std::function<std::string()> endpoint;  // an endpoint without a listener
};

// Returns a tcp endpoint whose port was free a moment ago. It is at a loopback address that only this process uses, as
// HOST in tests/e2e/harness.py, so no other test takes it.
std::string FreeTcpEndpoint() {
  const std::unique_ptr<Transport> probe = CreateZmqTransport({});
  const int id = getpid();
  return *probe->Bind("tcp://127." + std::to_string(64 + (id >> 16) % 64) + "." + std::to_string((id >> 8) % 256) +
                      "." + std::to_string(id % 256) + ":0");
}

std::string FreeIpcEndpoint() {
  static const testing::TempFolder folder;
  static int count = 0;
  return LocalAddress(folder.path(), std::to_string(++count));
}

// The key that all processes of these tests share, and the list that allows it.
struct TestKeys {
  TestKeys() {
    const std::string list = "[all]\nkey = \"" + TextOf(pair->public_key) + "\"\nrole = \"worker\"\n";
    admission = ListedAdmission::Open(folder.Write("allow.toml", list), {}).value();
  }
  testing::TempFolder folder;
  std::shared_ptr<const KeyPair> pair = std::make_shared<const KeyPair>(NewKeyPair());
  std::shared_ptr<Admission> admission;
};

std::vector<Carrier> Carriers() {
  static const TestKeys keys;
  const auto zmq = [](const TransportOptions& options) { return CreateZmqTransport(options); };
  const auto zmq_with_keys = [](TransportOptions options) {
    options.keys = keys.pair;
    options.admission = keys.admission;
    return CreateZmqTransport(options);
  };
  const auto coalescing = [](const auto& create) {
    return [create](TransportOptions options) {
      options.coalesces = true;
      return create(options);
    };
  };
  const auto endpoint_with_key = [] { return WithKey(FreeTcpEndpoint(), TextOf(keys.pair->public_key)); };
  return {{"zmq over tcp", Role::kAnyone, Role::kAnyone, zmq, FreeTcpEndpoint},
          {"zmq over ipc", Role::kThisUser, Role::kThisUser, zmq, FreeIpcEndpoint},
          {"zmq over tcp with keys", Role::kWorker, Role::kServer, zmq_with_keys, endpoint_with_key},
          {"zmq over ipc, coalescing", Role::kThisUser, Role::kThisUser, coalescing(zmq), FreeIpcEndpoint},
          {"zmq over tcp with keys, coalescing", Role::kWorker, Role::kServer, coalescing(zmq_with_keys),
           endpoint_with_key}};
}

// A server that is bound and a client that connects to it.
struct Pair {
  explicit Pair(const Carrier& carrier, const TransportOptions& options = {})
      : server(carrier.create(options)), client(carrier.create(options)), endpoint(*server->Bind(carrier.endpoint())) {
    to_server = *client->Connect(endpoint, Role::kServer);
  }
  // Polls both transports until done() is true.
  void Run(const std::function<bool()>& done) {
    RunUntil({{server.get(), &at_server}, {client.get(), &at_client}}, done);
  }
  // Sends a message from the client. Returns the PeerId that the server has for the client.
  PeerId MeetClient() {
    REQUIRE(client->Send(to_server, {Ping{}, {}}).ok());
    Run([&] { return !at_server.messages.empty(); });
    const PeerId peer = at_server.messages.back().from;
    at_server.messages.clear();
    return peer;
  }

  std::unique_ptr<Transport> server, client;
  std::string endpoint;
  PeerId to_server;
  Recorder at_server, at_client;
};

Push PushOf(std::uint64_t step) {
  Push push;
  push.step = {step};
  return push;
}
std::uint64_t StepOf(const Received& received) { return received.message.header.Get<Push>().step.value; }

TEST_CASE("a request reaches the peer that was called, and its answer comes back", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  REQUIRE(pair.client->Send(pair.to_server, {PushOf(7), MakePayload(100, 1)}).ok());
  pair.Run([&] { return pair.at_server.messages.size() == 1; });
  const Received& request = pair.at_server.messages[0];
  CHECK(StepOf(request) == 7);
  CHECK(request.sender.role == carrier.caller);
  CHECK(request.sender.key.has_value() == HasKey(carrier.caller));
  CHECK(Bytes(request.message.payload) == Bytes(MakePayload(100, 1)));

  REQUIRE(pair.server->Send(request.from, {Committed{3, {4}, {5}, {6}}, MakePayload(9, 2)}).ok());
  pair.Run([&] { return pair.at_client.messages.size() == 1; });
  const Received& answer = pair.at_client.messages[0];
  CHECK(answer.from == pair.to_server);
  CHECK(answer.sender == Principal{carrier.called, ""});
  CHECK(answer.message.header.Get<Committed>().shard == 3);
  CHECK(Bytes(answer.message.payload) == Bytes(MakePayload(9, 2)));
}

TEST_CASE("payloads of all sizes arrive byte by byte, in both directions", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  TransportOptions options;
  options.frame_bytes_max = 3 << 20;
  Pair pair(carrier, options);
  const PeerId to_client = pair.MeetClient();
  const std::vector<std::size_t> sizes = {0, 1, 33, 34, 1023, 1024, 8191, 8192, 8193, 1 << 20, 3 << 20};
  for (std::size_t size : sizes) {
    REQUIRE(pair.client->Send(pair.to_server, {PushOf(size), MakePayload(size, 1)}).ok());
    REQUIRE(pair.server->Send(to_client, {PushOf(size), MakePayload(size, 2)}).ok());
  }
  pair.Run(
      [&] { return pair.at_server.messages.size() == sizes.size() && pair.at_client.messages.size() == sizes.size(); });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    INFO(sizes[i] << " bytes");
    CHECK(StepOf(pair.at_server.messages[i]) == sizes[i]);
    CHECK(StepOf(pair.at_client.messages[i]) == sizes[i]);
    CHECK((Bytes(pair.at_server.messages[i].message.payload) == Bytes(MakePayload(sizes[i], 1))));
    CHECK((Bytes(pair.at_client.messages[i].message.payload) == Bytes(MakePayload(sizes[i], 2))));
  }
}

TEST_CASE("messages of one peer arrive in the order they were sent", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  const std::unique_ptr<Transport> server = carrier.create({});
  const std::string endpoint = *server->Bind(carrier.endpoint());
  std::vector<std::unique_ptr<Transport>> clients;
  std::vector<Recorder> unused(3);
  Recorder at_server;
  constexpr std::uint64_t kEach = 500;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(carrier.create({}));
    const PeerId to = *clients.back()->Connect(endpoint);
    for (std::uint64_t step = 0; step < kEach; ++step) {
      const std::size_t size = step % 5 == 0 ? 20000 : step % 3;
      REQUIRE(clients.back()->Send(to, {PushOf(step), MakePayload(size, 1)}).ok());
    }
  }
  RunUntil({{server.get(), &at_server}}, [&] { return at_server.messages.size() == 3 * kEach; });
  std::map<std::uint64_t, std::uint64_t> next;
  for (const Received& received : at_server.messages) REQUIRE(StepOf(received) == next[received.from.value]++);
  CHECK(next.size() == 3);
}

TEST_CASE("a peer that is absent is waited for in the background", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  const std::string endpoint = carrier.endpoint();
  const std::unique_ptr<Transport> client = carrier.create({});
  Recorder at_client, at_server;
  const PeerId to_server = *client->Connect(endpoint);
  REQUIRE(client->Send(to_server, {PushOf(1), {}}).ok());
  CHECK(client->Poll(std::chrono::milliseconds(1), at_client.Callback()) == 0);

  const std::unique_ptr<Transport> server = carrier.create({});
  REQUIRE(server->Bind(endpoint).ok());
  RunUntil({{server.get(), &at_server}}, [&] { return at_server.messages.size() == 1; });
  CHECK(StepOf(at_server.messages[0]) == 1);
}

TEST_CASE("a server that died and came back is reached through the same PeerId", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  pair.MeetClient();
  pair.server.reset();
  pair.server = carrier.create({});
  REQUIRE(pair.server->Bind(pair.endpoint).ok());
  pair.Run([&] {  // messages in flight at the death may be lost: ask again
    (void)pair.client->Send(pair.to_server, {PushOf(2), {}});
    return !pair.at_server.messages.empty();
  });
  REQUIRE(pair.server->Send(pair.at_server.messages[0].from, {PushOf(3), {}}).ok());
  pair.Run([&] { return !pair.at_client.messages.empty(); });
  CHECK(StepOf(pair.at_client.messages[0]) == 3);
}

TEST_CASE("a client that died is unreachable, and others are not disturbed", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  const PeerId gone = pair.MeetClient();
  pair.client.reset();
  Recorder unused;
  RunUntil({{pair.server.get(), &unused}}, [&] {
    return pair.server->Send(gone, {Ping{}, MakePayload(2000, 1)}).code() == Code::kUnreachable;
  });
  pair.client = carrier.create({});
  pair.to_server = *pair.client->Connect(pair.endpoint);
  const PeerId present = pair.MeetClient();
  CHECK(present != gone);
  CHECK(pair.server->Send(present, {Ping{}, {}}).ok());
}

TEST_CASE("nobody and the disconnected are unreachable", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  pair.MeetClient();
  CHECK(pair.client->Send({}, {Ping{}, {}}).code() == Code::kUnreachable);
  CHECK(pair.server->Send({123456}, {Ping{}, {}}).code() == Code::kUnreachable);
  CHECK(pair.server->Send({~std::uint64_t{0}}, {Ping{}, MakePayload(2000, 1)}).code() == Code::kUnreachable);
  pair.client->Disconnect(pair.to_server);
  pair.client->Disconnect(pair.to_server);
  CHECK(pair.client->Send(pair.to_server, {Ping{}, {}}).code() == Code::kUnreachable);
}

TEST_CASE("a full queue puts messages back and recovers", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  const bool to_client = GENERATE(false, true);
  INFO(carrier.name << (to_client ? ", server to client" : ", client to server"));
  TransportOptions options;
  options.queue_messages_max = 4;
  Pair pair(carrier, options);
  const PeerId client_id = pair.MeetClient();
  Transport& sender = to_client ? *pair.server : *pair.client;
  Transport& receiver = to_client ? *pair.client : *pair.server;
  const PeerId to = to_client ? client_id : pair.to_server;

  std::uint64_t sent = 0;
  const Slice payload = MakePayload(1 << 20, 1);
  const auto send = [&] { return sender.Send(to, {PushOf(sent), payload}); };
  Status status;
  while (sent < 10000 && (status = send()).ok()) ++sent;
  CHECK(status.code() == Code::kBusy);
  Recorder received;
  RunUntil({{&receiver, &received}}, [&] {
    if (received.messages.empty()) return false;
    const bool recovered = send().ok();
    sent += recovered ? 1 : 0;
    return recovered;
  });
  RunUntil({{&receiver, &received}}, [&] { return received.messages.size() == sent; });
  for (std::uint64_t i = 0; i < sent; ++i) REQUIRE(StepOf(received.messages[i]) == i);
}

TEST_CASE("a payload is released when it has left, and lives on with who received it", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  BufferPool pool(1 << 20);
  Slice kept;
  {
    Pair pair(carrier);
    const PeerId to_client = pair.MeetClient();
    BufferRef buffer = pool.Take();
    std::memset(buffer->data(), 0x5A, buffer->size());
    REQUIRE(pair.server->Send(to_client, {PushOf(1), WholeBuffer(buffer)}).ok());
    REQUIRE(pair.server->Send(to_client, {PushOf(2), WholeBuffer(std::move(buffer))}).ok());
    pair.Run([&] { return pair.at_client.messages.size() == 2 && pool.in_use_bytes() == 0; });
    kept = std::move(pair.at_client.messages[1].message.payload);

    pair.client->Disconnect(pair.to_server);  // no process reads any more: the queue is freed with the transport
    for (int i = 0; i < 50; ++i) (void)pair.server->Send(to_client, {PushOf(3), WholeBuffer(pool.Take())});
  }
  CHECK(pool.in_use_bytes() == 0);
  CHECK(kept.size == std::size_t{1} << 20);
  CHECK(std::count(kept.bytes().begin(), kept.bytes().end(), std::byte{0x5A}) == 1 << 20);
}

TEST_CASE("a part of a message above the limit is not sent", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  TransportOptions options;
  options.frame_bytes_max = 1000;
  Pair pair(carrier, options);
  CHECK(pair.client->Send(pair.to_server, {PushOf(1), MakePayload(1001, 1)}).code() == Code::kInvalid);
  Pull pull;
  pull.blocks.resize(1000);
  CHECK(pair.client->Send(pair.to_server, {pull, {}}).code() == Code::kInvalid);
  pull.blocks.resize(kListEntriesMax + 1);
  CHECK(pair.client->Send(pair.to_server, {pull, {}}).code() == Code::kInvalid);
  pair.MeetClient();
}

TEST_CASE("Wake ends a Poll, the one under way or the next", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  const auto forever = std::chrono::hours(1);  // a missed Wake shows as a test that does not end
  Recorder unused;
  pair.server->Wake();
  CHECK(pair.server->Poll(forever, unused.Callback()) == 0);
  std::atomic<int> rounds{0};
  std::thread waker([&] {
    for (int seen = 0; seen < 200; ++seen) {
      while (rounds.load() < seen) std::this_thread::yield();
      pair.server->Wake();
    }
  });
  for (int i = 0; i < 200; ++i) {
    pair.server->Poll(forever, unused.Callback());
    ++rounds;
  }
  waker.join();
}

TEST_CASE("a message ends a Poll, and a Poll without one ends by its timeout", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  pair.MeetClient();
  CHECK(pair.server->Poll(std::chrono::nanoseconds(0), pair.at_server.Callback()) == 0);
  CHECK(pair.server->Poll(std::chrono::milliseconds(2), pair.at_server.Callback()) == 0);
  std::thread caller([&] { (void)pair.client->Send(pair.to_server, {PushOf(1), {}}); });
  CHECK(pair.server->Poll(std::chrono::hours(1), pair.at_server.Callback()) == 1);
  caller.join();
}

TEST_CASE("who handles a message may send, connect and disconnect", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  Pair pair(carrier);
  REQUIRE(pair.client->Send(pair.to_server, {PushOf(0), {}}).ok());
  REQUIRE(pair.client->Send(pair.to_server, {PushOf(1), {}}).ok());
  PeerId second;
  const auto echo = [&](PeerId from, const Principal&, Message message) {
    CHECK(pair.server->Send(from, message).ok());
  };
  const auto hang_up = [&](PeerId from, const Principal&, Message) {
    pair.client->Disconnect(from);
    second = *pair.client->Connect(pair.endpoint);
    CHECK(pair.client->Send(second, {PushOf(2), {}}).ok());
  };
  int handled = 0;
  testing::Until([&] {
    pair.server->Poll(std::chrono::milliseconds(1), echo);
    handled += pair.client->Poll(std::chrono::milliseconds(1), hang_up);
    return handled >= 3;
  });
  CHECK(handled >= 3);
  CHECK(second != pair.to_server);
}

TEST_CASE("an address that cannot be used is refused with what to do", "[common][transport]") {
  const Carrier carrier = GENERATE(from_range(Carriers()));
  INFO(carrier.name);
  const std::unique_ptr<Transport> transport = carrier.create({});
  for (const char* bad : {"", "127.0.0.1:1", "inproc://x", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:99999",
                          "tcp://no-such-host.invalid:1", "tcp://192.0.2.1:5000", "ipc:///no/such/folder/socket"}) {
    const Result<std::string> bound = transport->Bind(bad);
    INFO(bad << " -> " << bound.status().message());
    CHECK(bound.status().code() == Code::kInvalid);
    CHECK(bound.status().message().find(bad) != std::string::npos);
  }
  for (const char* bad : {"", "127.0.0.1:1", "inproc://x", "tcp://127.0.0.1"}) {
    CHECK(transport->Connect(bad).status().code() == Code::kInvalid);
  }
}

}  // namespace
}  // namespace capstan
