// Who gets into an encrypted mesh, and who does not.
#include "worker/collective/secure_mesh.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "common/base/process_address.h"
#include "common/keys/key_pair.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/mesh.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "tests/worker/collective/groups.h"
#include "worker/collective/group_admission.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;

// Gives both ranks what `change` makes of their addresses.
class Changed : public Rendezvous {
 public:
  using Change = std::function<void(std::vector<std::string>* addresses)>;
  explicit Changed(Change change) : change_(std::move(change)) {}

  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<std::string> all, both_.Exchange(rank, std::move(bytes), deadline));
    change_(&all);
    return all;
  }

 private:
  InProcessRendezvous both_{2, NameOfTestRank};
  const Change change_;
};

std::vector<Result<std::shared_ptr<Mesh>>> Form(Rendezvous* rendezvous, std::chrono::milliseconds time = kPatience) {
  std::vector<Result<std::shared_ptr<Mesh>>> meshes(2, Invalid("not formed"));
  const Deadline deadline = In(time);
  RunThreads(2, [&](int rank) {
    const MeshOptions options{rank, 2, "127.0.0.1", NameOfTestRank};
    meshes[static_cast<std::size_t>(rank)] = CreateSecureMesh(options, rendezvous, deadline);
  });
  return meshes;
}

TEST_CASE("a rank publishes its address with the key that it proves", "[collective]") {
  std::vector<std::string> addresses;
  Guarded<int> seen;
  Changed rendezvous([&](std::vector<std::string>* all) { seen.Change([&](int&) { addresses = *all; }); });
  for (const auto& mesh : Form(&rendezvous)) REQUIRE(mesh.ok());
  REQUIRE(addresses.size() == 2);
  for (const std::string& address : addresses) {
    CHECK(IsProcessAddress(address));
    CHECK(KeyInAddress(address).size() == kKeyDigits);
  }
  CHECK(KeyInAddress(addresses[0]) != KeyInAddress(addresses[1]));
}

TEST_CASE("a rank with another key than the one that was published for it is not let in, and named", "[collective]") {
  Changed rendezvous(
      [](std::vector<std::string>* all) { (*all)[1] = WithKey(WithoutKey((*all)[1]), TextOf(PublicKey{{1}})); });
  const auto meshes = Form(&rendezvous, std::chrono::seconds(1));
  CHECK(meshes[0].status().code() == Code::kUnreachable);
  CHECK_THAT(meshes[0].status().message(), Contains("cannot connect to rank 1 (w-1)"));
  CHECK_THAT(meshes[1].status().message(), Contains("may be in another group by now") && !Contains("allow.toml"));
  CHECK_THAT(meshes[1].status().message(), Contains("cannot connect to rank 0 (w-0)"));
}

TEST_CASE("a handshake is refused when the members' keys do not become known", "[collective]") {
  CHECK_FALSE(GroupAdmission(std::chrono::milliseconds(1)).Find(PublicKey{{1}}, {}));
}

TEST_CASE("what a member says when it breaks the connection is cut", "[collective]") {
  // Rank 1 is a process that sends rank 0 an Error, and nothing else.
  class SendsError : public Rendezvous {
   public:
    Result<std::vector<std::string>> Exchange(int, std::string address, Deadline) override {
      TransportOptions options;
      options.keys = keys_;
      member_ = CreateZmqTransport(options);
      CAPSTAN_ASSIGN_OR_RETURN(const PeerId peer, member_->Connect(EndpointOf(address), Role::kWorker));
      Error error;
      error.code = Code::kInvalid;
      error.message = std::string(60'000, 'x');
      CAPSTAN_RETURN_IF_ERROR(member_->Send(peer, {std::move(error), {}}));
      return std::vector<std::string>{std::move(address), WithKey("127.0.0.1:1", TextOf(keys_->public_key))};
    }

   private:
    const std::shared_ptr<const KeyPair> keys_ = std::make_shared<const KeyPair>(NewKeyPair());
    std::unique_ptr<Transport> member_;
  } rendezvous;
  const MeshOptions options{0, 2, "127.0.0.1", NameOfTestRank};
  const Status status = CreateSecureMesh(options, &rendezvous, In(kPatience)).status();
  CHECK_THAT(status.message(), Contains("cannot connect to rank 1 (w-1): xxx") && Contains("xxx..."));
  CHECK(status.message().size() < 3000);
}

TEST_CASE("what is no address with a key of its own is refused by the rank's name", "[collective]") {
  const std::string wrong = GENERATE("", "127.0.0.1:1", "ipc:///run/x", "127.0.0.1:1#12", "\xFF\xFF", "-127.0.0.1");
  Changed rendezvous([&](std::vector<std::string>* all) { (*all)[0] = (*all)[1] = wrong; });
  for (const auto& mesh : Form(&rendezvous)) {
    CHECK(mesh.status().code() == Code::kInvalid);
    CHECK_THAT(mesh.status().message(), Contains("gave no address with a key"));
  }
}

TEST_CASE("addresses of too few ranks, and one that is not of this machine, are refused", "[collective]") {
  struct Forgetful : Rendezvous {
    Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
      return std::vector<std::string>{bytes};
    }
  } rendezvous;
  CHECK_THAT(CreateSecureMesh({0, 3, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status().message(),
             Contains("1 of them to 3 ranks"));
  const Status away = CreateSecureMesh({0, 2, "192.0.2.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(away.code() == Code::kUnreachable);
  CHECK_THAT(away.message(), Contains("192.0.2.1"));
  CHECK(CreateSecureMesh({2, 2, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status().code() == Code::kInvalid);
}

TEST_CASE("a mesh that not all ranks come to is not formed, and names who is missing", "[collective]") {
  InProcessRendezvous rendezvous(2, NameOfTestRank);
  const MeshOptions options{0, 2, "127.0.0.1", NameOfTestRank};
  const Status status = CreateSecureMesh(options, &rendezvous, In(std::chrono::milliseconds(50))).status();
  CHECK(status.code() == Code::kTimeout);
  CHECK_THAT(status.message(), Contains("rank 1 (w-1)") && !Contains("rank 0"));
}

// Connects to HOST:PORT, sends bytes that no member sends, and waits until the other end closes the connection. Returns
// whether it could connect.
bool SendGarbage(const std::string& address, std::size_t count) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  const std::string garbage(count, '\x55');
  (void)send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  char byte = 0;
  while (recv(fd, &byte, 1, 0) > 0) continue;
  close(fd);
  return connected;
}

// Returns the error that a process with these keys gets at `target`.
std::string ErrorAt(std::shared_ptr<const KeyPair> keys, const std::string& target) {
  TransportOptions options;
  options.keys = std::move(keys);
  const auto stranger = CreateZmqTransport(options);
  const PeerId peer = stranger->Connect(EndpointOf(target), Role::kWorker).value();
  REQUIRE(stranger->Send(peer, {MeshPiece{}, {}}).ok());
  std::string text;
  for (const Deadline deadline = In(kPatience); text.empty() && std::chrono::steady_clock::now() < deadline;) {
    stranger->Poll(std::chrono::milliseconds(100), [&](PeerId, const Principal&, const Message& message) {
      if (const auto* error = message.header.As<Error>()) text = error->message;
    });
  }
  return text;
}

TEST_CASE("strangers at a rank's port, while the mesh is formed and afterwards, neither get in nor end it",
          "[collective]") {
  std::vector<std::string> addresses;
  Guarded<int> seen;
  std::atomic<int> connected{0};
  Changed rendezvous([&](std::vector<std::string>* all) {
    seen.Change([&](int&) { addresses = *all; });
    for (const std::string& address : *all) {
      for (const std::size_t count : {0u, 10u, 48u, 5000u}) connected += SendGarbage(WithoutKey(address), count);
    }
  });
  std::vector<std::shared_ptr<Mesh>> meshes;
  for (auto& mesh : Form(&rendezvous)) {
    INFO(mesh.status().ToString());
    REQUIRE(mesh.ok());
    meshes.push_back(*mesh);
  }
  Groups groups(std::move(meshes));
  const auto reduces = [&] {
    groups.RunWell([](Group& group) {
      std::vector<float> data(1000, 1.0F);
      CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data, In(kPatience)));
      return data == std::vector<float>(1000, 2.0F) ? Status() : Corrupt("the sum is wrong");
    });
  };
  reduces();
  CHECK(connected == 16);
  for (const std::size_t count : {10u, 48u, 5000u}) CHECK(SendGarbage(WithoutKey(addresses[0]), count));
  const auto stranger = std::make_shared<const KeyPair>(NewKeyPair());
  CHECK_THAT(ErrorAt(stranger, addresses[0]), Contains("does not admit the key of this process"));
  reduces();
}

}  // namespace
}  // namespace capstan::collective
