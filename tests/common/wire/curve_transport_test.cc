// Tests of connections with keys: who is let in, who is told what, and what a change of the allow list does.
#include <memory>
#include <string>

#include "common/base/process_address.h"
#include "common/keys/key_pair.h"
#include "common/keys/listed_admission.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::Received;
using testing::Recorder;
using testing::RunUntil;

std::string Allow(const std::string& label, const KeyPair& keys, const std::string& role,
                  const std::string& more = "") {
  return "[" + label + "]\nkey = \"" + TextOf(keys.public_key) + "\"\nrole = \"" + role + "\"\n" + more + "\n";
}

std::unique_ptr<Transport> With(std::shared_ptr<const KeyPair> keys) {
  TransportOptions options;
  options.keys = std::move(keys);
  return CreateZmqTransport(options);
}

// A process that listens with a key, and the keys of two that may come.
struct Listener {
  Listener() {
    Write(Allow("w", *worker, "worker", "name = \"w1\"") + Allow("s", *server, "server"));
    TransportOptions options;
    options.keys = own;
    options.admission = admission = ListedAdmission::Open(folder.path("allow.toml"), {}).value();
    transport = CreateZmqTransport(options, &counters);
    endpoint = transport->Bind("tcp://127.0.0.1:0").value();
  }
  void Write(const std::string& list) { folder.Write("allow.toml", list); }
  // Sends a message from `client` until it has arrived, or the client was told why not.
  void Meet(Transport* client, PeerId to, Recorder* at_client) {
    REQUIRE(client->Send(to, {Ping{}, {}}).ok());
    const std::size_t before = messages.messages.size();
    RunUntil({{transport.get(), &messages}, {client, at_client}},
             [&] { return messages.messages.size() > before || !at_client->messages.empty(); });
  }
  // Returns what a process with these keys is told when it connects to `target`.
  std::string Told(const std::shared_ptr<const KeyPair>& keys, const std::string& target) {
    const auto client = With(keys);
    Recorder at_client;
    Meet(client.get(), client->Connect(target, Role::kCoordinator).value(), &at_client);
    CHECK(messages.messages.empty());
    REQUIRE_FALSE(at_client.messages.empty());  // a slow machine sees two attempts fail in one turn
    for (const Received& told : at_client.messages) {
      CHECK(told.message.header.Get<Error>().code == Code::kRefused);
    }
    return at_client.messages[0].message.header.Get<Error>().message;
  }

  testing::TempFolder folder;
  std::shared_ptr<const KeyPair> own = std::make_shared<const KeyPair>(NewKeyPair()),
                                 worker = std::make_shared<const KeyPair>(NewKeyPair()),
                                 server = std::make_shared<const KeyPair>(NewKeyPair());
  std::shared_ptr<Admission> admission;
  TransportCounters counters;
  std::unique_ptr<Transport> transport;
  std::string endpoint;
  Recorder messages;
};

TEST_CASE("a message comes with the role and the name that the allow list gives to its sender's key",
          "[transport][keys]") {
  Listener listener;
  CHECK(KeyInAddress(listener.endpoint) == TextOf(listener.own->public_key));
  const auto worker = With(listener.worker), server = With(listener.server);
  Recorder at_client;
  listener.Meet(worker.get(), worker->Connect(listener.endpoint).value(), &at_client);
  listener.Meet(server.get(), server->Connect(listener.endpoint).value(), &at_client);
  REQUIRE(listener.messages.messages.size() == 2);
  CHECK(listener.messages.messages[0].sender == Principal{Role::kWorker, "w1", listener.worker->public_key});
  CHECK(listener.messages.messages[1].sender == Principal{Role::kServer, "", listener.server->public_key});
}

TEST_CASE("a process that is not let in is told why", "[transport][keys]") {
  Listener listener;
  SECTION("its key is not in the list") {
    const auto stranger = std::make_shared<const KeyPair>(NewKeyPair());
    CHECK_THAT(listener.Told(stranger, listener.endpoint),
               Contains("does not admit the key of this process") && Contains("allow.toml"));
  }
  SECTION("it expects another key there") {
    const std::string other = TextOf(NewKeyPair().public_key);
    const std::string target = WithKey(WithoutKey(listener.endpoint), other);
    CHECK_THAT(listener.Told(listener.worker, target), Contains("does not have the key " + other));
  }
  SECTION("it has no key") {
    CHECK_THAT(listener.Told(nullptr, WithoutKey(listener.endpoint)),
               Contains("asks for keys: write its address as HOST:PORT#KEY"));
  }
}

// Sends messages until one has arrived: those before the right key was tried are lost.
void MeetAtLast(Transport* client, PeerId to, Recorder* at_client, Transport* listener, Recorder* at_listener) {
  RunUntil({{listener, at_listener}, {client, at_client}}, [&] {
    (void)client->Send(to, {Ping{}, {}});
    return !at_listener->messages.empty();
  });
}

TEST_CASE("of two keys in an address a process has to prove one", "[transport][keys]") {
  Listener listener;
  const std::string own = TextOf(listener.own->public_key), other = TextOf(NewKeyPair().public_key),
                    address = WithoutKey(listener.endpoint);
  const auto worker = With(listener.worker);
  Recorder at_client;
  for (const std::string& keys : {own + "," + other, other + "," + own}) {
    const PeerId to = worker->Connect(WithKey(address, keys)).value();
    MeetAtLast(worker.get(), to, &at_client, listener.transport.get(), &listener.messages);
    listener.messages.messages.clear();
  }
  CHECK(at_client.messages.empty());
  const std::string third = TextOf(NewKeyPair().public_key);
  Listener another;  // to which no message of this worker is still on its way
  CHECK_THAT(another.Told(another.worker, WithKey(WithoutKey(another.endpoint), other + "," + third)),
             Contains("does not have the key") && Contains(other) && Contains(" or ") && Contains(third));
}

TEST_CASE("a process may come back with the other of two keys", "[transport][keys]") {
  Listener listener;
  const auto next = std::make_shared<const KeyPair>(NewKeyPair());
  const auto worker = With(listener.worker);
  Recorder at_client;
  const std::string target = listener.endpoint + "," + TextOf(next->public_key);
  const PeerId to = worker->Connect(target).value();
  listener.Meet(worker.get(), to, &at_client);

  listener.transport.reset();
  TransportOptions options;
  options.keys = next;
  options.admission = listener.admission;
  const auto again = CreateZmqTransport(options);
  testing::Until([&] { return again->Bind(target).ok(); });  // until the port is free
  Recorder at_again;
  MeetAtLast(worker.get(), to, &at_client, again.get(), &at_again);
  CHECK(at_again.messages[0].sender.name == "w1");
  CHECK(at_client.messages.empty());
}

TEST_CASE("a process that asks for it is told when a connection that stood has broken", "[transport][keys]") {
  Listener listener;
  TransportOptions options;
  options.keys = listener.worker;
  options.reports_breaks = GENERATE(true, false);
  const auto client = CreateZmqTransport(options);
  Recorder at_client;
  const PeerId peer = client->Connect(listener.endpoint, Role::kCoordinator).value();
  listener.Meet(client.get(), peer, &at_client);
  listener.transport.reset();
  if (options.reports_breaks) {
    RunUntil({{client.get(), &at_client}}, [&] { return !at_client.messages.empty(); });
    CHECK(at_client.messages[0].from == peer);
    const Error& error = at_client.messages[0].message.header.Get<Error>();
    CHECK(error.code == Code::kUnreachable);
    CHECK_THAT(error.message, Contains("broke"));
  }
  client->Poll(std::chrono::milliseconds(300), at_client.Callback());
  CHECK(at_client.messages.size() == (options.reports_breaks ? 1 : 0));
}

TEST_CASE("a process with keys does not talk to one without", "[transport][keys]") {
  Listener listener;
  Recorder at_plain, at_client;
  const auto plain = CreateZmqTransport({});
  const std::string target = WithKey(plain->Bind("tcp://127.0.0.1:0").value(), TextOf(listener.own->public_key));
  const auto client = With(listener.worker);
  const PeerId to = client->Connect(target).value();
  REQUIRE(client->Send(to, {Ping{}, {}}).ok());
  RunUntil({{plain.get(), &at_plain}, {client.get(), &at_client}}, [&] { return !at_client.messages.empty(); });
  CHECK(at_plain.messages.empty());
  CHECK_THAT(at_client.messages[0].message.header.Get<Error>().message,
             Contains("has no key") || Contains("or has none"));
  CHECK_THAT(client->Connect(WithoutKey(target)).status().message(),
             Contains("has no key, and this process talks only to"));
  CHECK_THAT(plain->Connect(target).status().message(), Contains("CAPSTAN_KEY_FILE"));
}

TEST_CASE("a process listens only under its own key", "[transport][keys]") {
  const Listener listener;
  const std::string own = TextOf(listener.own->public_key), other = TextOf(listener.worker->public_key);
  CHECK(listener.transport->Bind("tcp://127.0.0.1:0#" + own).ok());
  CHECK(listener.transport->Bind("tcp://127.0.0.1:0#" + other + "," + own).ok());
  const std::string why = listener.transport->Bind("tcp://127.0.0.1:0#" + other).status().message();
  CHECK_THAT(why, Contains("has the key " + other) && Contains("the key file of this process has " + own));
  CHECK_THAT(CreateZmqTransport({})->Bind("tcp://127.0.0.1:0#" + own).status().message(),
             Contains("this process has none"));
}

TEST_CASE("a revoked key's messages are dropped on its open connection, and a new role holds at once",
          "[transport][keys]") {
  Listener listener;
  const auto worker = With(listener.worker), server = With(listener.server);
  Recorder at_worker, at_server;
  const PeerId from_worker = worker->Connect(listener.endpoint).value();
  const PeerId from_server = server->Connect(listener.endpoint).value();
  listener.Meet(worker.get(), from_worker, &at_worker);
  listener.Meet(server.get(), from_server, &at_server);

  listener.Write(Allow("s", *listener.server, "reader", "name = \"later\""));
  const auto now = std::chrono::steady_clock::now();
  for (int second = 0; second < 3; ++second) listener.admission->Refresh(now + std::chrono::seconds(second));
  REQUIRE(worker->Send(from_worker, {Ping{}, {}}).ok());
  RunUntil({{listener.transport.get(), &listener.messages}, {worker.get(), &at_worker}},
           [&] { return listener.counters.revoked_peers == 1; });
  listener.Meet(server.get(), from_server, &at_server);
  REQUIRE(listener.messages.messages.size() == 3);
  CHECK(listener.messages.messages[2].sender == Principal{Role::kReader, "later", listener.server->public_key});
}

TEST_CASE("the allow list is watched while a process listens", "[transport][keys]") {
  Listener listener;
  const auto late = std::make_shared<const KeyPair>(NewKeyPair());
  listener.Write(Allow("w", *listener.worker, "worker") + Allow("late", *late, "worker", "name = \"late\""));
  Recorder none;
  RunUntil({{listener.transport.get(), &none}}, [&] { return listener.admission->version() > 0; });
  const auto client = With(late);
  Recorder at_client;
  listener.Meet(client.get(), client->Connect(listener.endpoint).value(), &at_client);
  REQUIRE(listener.messages.messages.size() == 1);
  CHECK(listener.messages.messages[0].sender.name == "late");
}

}  // namespace
}  // namespace capstan
