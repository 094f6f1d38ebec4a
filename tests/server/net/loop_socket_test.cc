// Tests of a loop's socket: of each message it delivers what its sender may send, and refuses the rest.
#include "server/net/loop_socket.h"

#include <set>
#include <string>
#include <vector>

#include "common/base/process_address.h"
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

TEST_CASE("an actor is given what its sender may send, over each transport", "[server][net]") {
  const TempFolder folder;
  const bool local = GENERATE(false, true);
  const Receiver receiver = GENERATE(Receiver::kCoordinator, Receiver::kShard);
  const Role role = local ? Role::kThisUser : Role::kAnyone;
  CAPTURE(local, static_cast<int>(receiver));
  monitoring::Registry registry;
  LoopSocket::Options options;
  options.listen = EndpointOf(local ? LocalAddress(folder.path(), "socket") : "127.0.0.1:0");
  options.receiver = receiver;
  const auto socket = LoopSocket::Open(std::move(options), &registry).value();
  const auto client = CreateZmqTransport({});
  const PeerId to = client->Connect(socket->endpoint()).value();

  std::set<std::size_t> expected, delivered;
  std::size_t refused = 0;
  for (const Header& header : OneOfEach(MessageTypes())) {
    REQUIRE(client->Send(to, {header, {}}).ok());
    const bool allowed = MaySend({role, ""}, header, receiver);
    if (allowed) expected.insert(header.any().index());
    refused += allowed ? 0 : 1;
  }
  REQUIRE(refused > 0);
  Recorder at_client;
  testing::Until([&] {
    socket->Poll(std::chrono::milliseconds(1),
                 [&](PeerId, const Message& message) { delivered.insert(message.header.any().index()); });
    client->Poll(std::chrono::milliseconds(1), at_client.Callback());
    return delivered.size() == expected.size() && !at_client.messages.empty();
  });
  CHECK(delivered == expected);
  for (const testing::Received& answer : at_client.messages) {
    CHECK(answer.message.header.Get<Error>().code == Code::kInvalid);
  }
}

}  // namespace
}  // namespace capstan::server
