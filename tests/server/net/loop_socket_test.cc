// Tests of a loop's socket: of each message it delivers what its sender may send, and refuses the rest.
#include "server/net/loop_socket.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/process_address.h"
#include "common/keys/listed_admission.h"
#include "common/keys/role_name.h"
#include "common/wire/messages.h"
#include "monitoring/registry.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

using testing::Recorder;
using testing::TempFolder;

template <class... Ts>
std::vector<Header> OneOfEach(TypeList<Ts...>) {
  return {Header(Ts{})...};
}

// A connection to a LoopSocket over which one of each message is sent.
struct Case {
  std::string listen;
  Role role;  // of the sender, as the socket sees it
  TransportOptions server, client;
};

// Sends one of each message. Each that its sender may send must be delivered, and no other; a refused one is answered
// with `refusal`.
void CheckCase(const Case& with, Receiver receiver, Code refusal) {
  monitoring::Registry registry;
  LoopSocket::Options options;
  options.transport = with.server;
  options.listen = with.listen;
  options.receiver = receiver;
  const auto socket = LoopSocket::Open(std::move(options), &registry).value();
  const auto client = CreateZmqTransport(with.client);
  const PeerId to = client->Connect(socket->endpoint()).value();

  std::set<std::size_t> expected, delivered;
  int in_flight = 0;
  for (const Header& header : OneOfEach(MessageTypes())) {
    ++in_flight;
    REQUIRE(client->Send(to, {header, {}}).ok());
    if (MaySend({with.role, ""}, header, receiver)) expected.insert(header.any().index());
  }
  REQUIRE(expected.size() < OneOfEach(MessageTypes()).size());
  Recorder at_client;
  testing::Until([&] {
    in_flight -= socket->Poll(std::chrono::milliseconds(1), [&](PeerId, const Principal&, const Message& message) {
      delivered.insert(message.header.any().index());
    });
    client->Poll(std::chrono::milliseconds(1), at_client.Callback());
    return in_flight == 0 && !at_client.messages.empty();
  });
  CHECK(delivered == expected);
  for (const testing::Received& answer : at_client.messages) {
    CHECK(answer.message.header.Get<Error>().code == refusal);
  }
}

TEST_CASE("an actor is given what its sender may send, over connections without keys", "[server][net]") {
  const TempFolder folder;
  const bool local = GENERATE(false, true);
  const Receiver receiver = GENERATE(Receiver::kCoordinator, Receiver::kShard);
  CAPTURE(local, static_cast<int>(receiver));
  const std::string listen = EndpointOf(local ? LocalAddress(folder.path(), "socket") : "127.0.0.1:0");
  CheckCase({listen, local ? Role::kThisUser : Role::kAnyone, {}, {}}, receiver, Code::kInvalid);
}

TEST_CASE("an actor is given what its sender's role may send, and another role is told so", "[server][net][keys]") {
  const TempFolder folder;
  const Role role = GENERATE(Role::kCoordinator, Role::kServer, Role::kWorker, Role::kReader, Role::kAdmin);
  const Receiver receiver = GENERATE(Receiver::kCoordinator, Receiver::kShard);
  CAPTURE(NameOf(role), static_cast<int>(receiver));
  const auto own = std::make_shared<const KeyPair>(NewKeyPair()),
             sender = std::make_shared<const KeyPair>(NewKeyPair());
  const std::string list =
      "[a]\nkey = \"" + TextOf(sender->public_key) + "\"\nrole = \"" + std::string(NameOf(role)) + "\"\n";
  Case with{"tcp://127.0.0.1:0", role, {}, {}};
  with.server.keys = own;
  with.server.admission = ListedAdmission::Open(folder.Write("allow.toml", list), {}).value();
  with.client.keys = sender;
  CheckCase(with, receiver, Code::kRefused);
}

}  // namespace
}  // namespace capstan::server
