// Tests of Unix sockets: who can connect to one, and when its path is taken over.
#include "common/wire/local_endpoint.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>

#include "common/base/process_address.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/patience.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::Patience;
using testing::Recorder;
using testing::RunUntil;
using testing::TempFolder;

constexpr uid_t kNobody = 65534;

// How a stranger fares who connects to a socket and waits for the first byte of the server's greeting.
enum class Fate { kGreeted, kClosed, kNotConnected, kNothing };

Fate ConnectBare(const std::string& path, int timeout_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Fate::kNotConnected;
  pollfd wanted{peer, POLLIN, 0};
  char byte = 0;
  Fate fate = Fate::kNothing;
  if (poll(&wanted, 1, timeout_ms) == 1) fate = read(peer, &byte, 1) == 1 ? Fate::kGreeted : Fate::kClosed;
  close(peer);
  return fate;
}

// Runs ConnectBare in a process of the user `uid`.
Fate ConnectAs(uid_t uid, const std::string& path) {
  const int timeout_ms = 30'000 * Patience();
  const pid_t child = fork();
  if (child == 0) {
    if (uid != geteuid() && setresuid(uid, uid, uid) != 0) _exit(99);
    _exit(static_cast<int>(ConnectBare(path, timeout_ms)));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) != 99);
  return static_cast<Fate>(WEXITSTATUS(status));
}

TEST_CASE("the kernel keeps another user's process from a socket, even where its folder is open", "[common][local]") {
  if (geteuid() != 0) {
    WARN("only the superuser can start a process of another user");
    return;
  }
  const TempFolder scratch(TempFolder::Where::kDisk);
  const std::string path = scratch.path("socket");
  const auto server = CreateZmqTransport({});
  REQUIRE(server->Bind(LocalAddress(scratch.path(), "socket")).ok());
  CHECK(ConnectAs(geteuid(), path) == Fate::kGreeted);
  CHECK(ConnectAs(kNobody, path) == Fate::kNotConnected);  // its folder is closed
  REQUIRE(chmod(scratch.path().c_str(), 0755) == 0);
  REQUIRE(chmod(path.c_str(), 0777) == 0);
  CHECK(ConnectAs(kNobody, path) == Fate::kClosed);
  CHECK(ConnectAs(geteuid(), path) == Fate::kGreeted);
}

TEST_CASE("a socket lies in a private folder, for who listens and for who connects", "[common][local]") {
  const TempFolder scratch;
  const std::string endpoint = LocalAddress(scratch.path(), "socket");
  REQUIRE(chmod(scratch.path().c_str(), 0755) == 0);
  const auto transport = CreateZmqTransport({});
  for (const Status& status : {transport->Bind(endpoint).status(), transport->Connect(endpoint).status()}) {
    INFO(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains(endpoint) && Contains("chmod 700"));
  }
  REQUIRE(chmod(scratch.path().c_str(), 0700) == 0);
  CHECK(transport->Bind(endpoint).ok());
}

TEST_CASE("a path at which a process listens is not taken from it, and one left behind is", "[common][local]") {
  const TempFolder scratch;
  const std::string endpoint = LocalAddress(scratch.path(), "socket");
  const auto heir = CreateZmqTransport({});
  CHECK_FALSE(IsServed(endpoint));
  const pid_t child = fork();
  if (child == 0) {  // dies with the socket bound, and leaves its file
    const auto killed = CreateZmqTransport({});
    _exit(killed->Bind(endpoint).ok() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(std::filesystem::is_socket(scratch.path("socket")));
  CHECK_FALSE(IsServed(endpoint));

  REQUIRE(heir->Bind(endpoint).ok());
  CHECK(IsServed(endpoint));
  const auto other = CreateZmqTransport({});
  const Status taken = other->Bind(endpoint).status();
  CHECK(taken.code() == Code::kInvalid);
  CHECK_THAT(taken.message(), Contains(endpoint) && Contains("already in use"));

  const auto client = CreateZmqTransport({});
  Recorder at_heir, unused;
  REQUIRE(client->Send(*client->Connect(endpoint), {Ping{}, {}}).ok());
  RunUntil({{heir.get(), &at_heir}, {client.get(), &unused}}, [&] { return at_heir.messages.size() == 1; });
}

TEST_CASE("an endpoint is used by the path that its links lead to", "[common][local]") {
  const TempFolder scratch;
  std::filesystem::create_directory(scratch.path("long"));
  std::filesystem::permissions(scratch.path("long"), std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink("long", scratch.path("l"));
  const std::string real = std::filesystem::canonical(scratch.path("long"));
  CHECK(CheckLocalEndpoint(LocalAddress(scratch.path("l"), "socket")).value() == LocalAddress(real, "socket"));
  CHECK(CheckLocalEndpoint("ipc://relative").status().code() == Code::kInvalid);
  CHECK(CheckLocalEndpoint("ipc://@abstract").status().code() == Code::kInvalid);
}

}  // namespace
}  // namespace capstan
