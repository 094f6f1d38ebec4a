// The connections of SharedPayloads: when one is given up, which are refused, and what is noted.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "common/base/process_address.h"
#include "common/wire/routing_id.h"
#include "common/wire/shared_payloads.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Until;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kPayload = std::size_t{64} << 10;
constexpr PeerId kToServer{1}, kToClient{kNamedPeer | 5};  // what each side calls the other

struct Side {
  explicit Side(const SharedPayloads::Limits& limits = SharedPayloads::Limits())
      : payloads(
            memory, [this](const std::string& text) { notes.push_back(text); }, limits) {}
  Slice Payload() { return WholeBuffer(pool.Take()); }

  std::shared_ptr<SharedMemory> memory = std::make_shared<SharedMemory>(kPayload, kPayload);  // a region for each
  BufferPool pool{kPayload, memory};
  std::vector<std::string> notes;
  SharedPayloads payloads;
};

std::vector<std::byte> FrameOf(const PayloadReference& reference) {
  const auto bytes = std::as_bytes(std::span(&reference, 1));
  return {bytes.begin(), bytes.end()};
}

struct Sides {
  explicit Sides(const SharedPayloads::Limits& limits = SharedPayloads::Limits()) : server(limits) {
    server.payloads.Listen(endpoint);
    client->payloads.Connect(kToServer, endpoint, kToClient.value);
    for (int i = 0; i < 3; ++i) Handle();  // both greet
  }
  void Handle() {
    server.payloads.Handle();
    if (client) client->payloads.Handle();
  }
  // Returns the server's reference to the payload, once the client has its region.
  PayloadReference FromServer(const Slice& payload) {
    std::optional<PayloadReference> reference;
    Until([&] {
      Handle();
      reference = server.payloads.Refer(kToClient, payload);
      return reference.has_value();
    });
    return *reference;
  }
  PayloadReference FromClient(const Slice& payload) {
    std::optional<PayloadReference> reference;
    Until([&] {
      Handle();
      reference = client->payloads.Refer(kToServer, payload);
      return reference.has_value();
    });
    return *reference;
  }

  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  Side server;
  std::unique_ptr<Side> client = std::make_unique<Side>();
};

TEST_CASE("a peer that has copied nothing for a minute loses its connection, and gets another when it goes on",
          "[common][shared_payloads]") {
  Sides sides;
  const Slice payload = sides.server.Payload();
  const std::vector<std::byte> frame = FrameOf(sides.FromServer(payload));
  const SteadyClock::time_point start = SteadyClock::now();
  sides.server.payloads.Tend(start + seconds(1));
  sides.server.payloads.Tend(start + seconds(61));
  CHECK(payload.owner->reference_count() == 2);
  sides.server.payloads.Tend(start + seconds(61) + milliseconds(60));
  CHECK(payload.owner->reference_count() == 1);
  CHECK_FALSE(sides.server.payloads.Refer(kToClient, payload));

  sides.Handle();
  CHECK(sides.client->payloads.Copy(kToServer, frame, kPayload, nullptr).ok());  // it still maps the region
  sides.client->payloads.Tend(SteadyClock::now() + seconds(1));                  // connects again
  sides.FromServer(payload);
}

TEST_CASE("a peer that copies keeps its connection, however long it takes in all", "[common][shared_payloads]") {
  Sides sides;
  const Slice payload = sides.server.Payload();
  SteadyClock::time_point now = SteadyClock::now();
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::byte> frame = FrameOf(sides.FromServer(payload));
    sides.server.payloads.Tend(now += seconds(1));
    sides.server.payloads.Tend(now += seconds(59));
    REQUIRE(sides.client->payloads.Copy(kToServer, frame, kPayload, nullptr).ok());
    sides.server.payloads.Tend(now += seconds(1));
    REQUIRE(payload.owner->reference_count() == 1);
  }
}

TEST_CASE("what a peer has sent before its end can be copied for a second", "[common][shared_payloads]") {
  Sides sides;
  const Slice payload = sides.client->Payload();
  std::memset(payload.owner->data(), 7, kPayload);
  const std::vector<std::byte> first = FrameOf(sides.FromClient(payload));
  const std::vector<std::byte> second = FrameOf(sides.FromClient(payload));
  sides.client = nullptr;
  const SteadyClock::time_point before = SteadyClock::now();
  sides.server.payloads.Handle();
  const SteadyClock::time_point after = SteadyClock::now();
  sides.server.payloads.Tend(before + seconds(1));
  const Result<Slice> copy = sides.server.payloads.Copy(kToClient, first, kPayload, nullptr);
  REQUIRE(copy.ok());
  CHECK(testing::Bytes(*copy) == std::vector<std::byte>(kPayload, std::byte{7}));
  sides.server.payloads.Tend(after + seconds(1) + milliseconds(60));
  CHECK(sides.server.payloads.Copy(kToClient, second, kPayload, nullptr).status().code() == Code::kStale);
}

// Returns a socket that listens at, or is connected to, the path of the endpoint's shared memory.
int SocketAt(const std::string& endpoint, int type, bool listens) {
  const std::string path = SocketPathOf(endpoint) + ".m";
  const int made = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  REQUIRE((listens ? bind(made, name, sizeof address) : connect(made, name, sizeof address)) == 0);
  if (listens) REQUIRE(listen(made, 8) == 0);
  return made;
}

// Returns the number of the next descriptor.
int NextDescriptor() {
  const int next = dup(STDIN_FILENO);
  close(next);
  return next;
}

// Lets this process open fewer files than before. By default it can open no further ones.
struct FilesLimit {
  explicit FilesLimit(rlim_t count = static_cast<rlim_t>(NextDescriptor())) {
    const rlimit fewer{count, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &fewer) == 0);
  }
  ~FilesLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  const rlimit before = [] {
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return now;
  }();
};

bool IsClosed(int socket) {
  char byte = 0;
  return recv(socket, &byte, 1, MSG_DONTWAIT) == 0;
}

TEST_CASE("a process takes no more connections than its limit", "[common][shared_payloads]") {
  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  Side server(GENERATE(SharedPayloads::Limits{.peers = 2}, SharedPayloads::Limits{.silent = 2}));
  server.payloads.Listen(endpoint);
  std::vector<int> sockets;
  for (int i = 0; i < 3; ++i) sockets.push_back(SocketAt(endpoint, SOCK_SEQPACKET, false));
  const SteadyClock::time_point before = SteadyClock::now();
  server.payloads.Handle();
  CHECK_FALSE(IsClosed(sockets[0]));
  CHECK_FALSE(IsClosed(sockets[1]));
  CHECK(IsClosed(sockets[2]));
  REQUIRE(server.notes.size() == 1);
  CHECK_THAT(server.notes[0], Contains("server.m: it has as many connections as it takes"));

  server.payloads.Tend(before + seconds(9));
  CHECK_FALSE(IsClosed(sockets[0]));
  server.payloads.Tend(SteadyClock::now() + seconds(11));  // they have said nothing
  CHECK(IsClosed(sockets[0]));
  CHECK(IsClosed(sockets[1]));
  for (const int one : sockets) close(one);
}

TEST_CASE("a process maps no more of its peers' memory than its limit", "[common][shared_payloads]") {
  Sides sides(GENERATE(SharedPayloads::Limits{.regions = 2}, SharedPayloads::Limits{.bytes = 3 * kPayload - 1}));
  const std::vector<Slice> payloads = {sides.client->Payload(), sides.client->Payload(), sides.client->Payload()};
  sides.FromClient(payloads[0]);
  sides.FromClient(payloads[1]);
  CHECK(sides.server.notes.empty());
  CHECK_FALSE(sides.client->payloads.Refer(kToServer, payloads[2]));  // gives the third region
  for (int i = 0; i < 3; ++i) sides.Handle();
  CHECK_FALSE(sides.client->payloads.Refer(kToServer, payloads[2]));
  CHECK(sides.client->payloads.Refer(kToServer, payloads[0]));
  REQUIRE(sides.server.notes.size() == 1);
  CHECK_THAT(sides.server.notes[0], EndsWith("a peer's memory: as much memory of peers is mapped as may be"));

  // The regions of a connection that is gone no longer count.
  sides.client = std::make_unique<Side>();
  sides.Handle();
  sides.server.payloads.Tend(SteadyClock::now() + seconds(2));
  sides.client->payloads.Connect(kToServer, sides.endpoint, kToClient.value);
  sides.FromClient(sides.client->Payload());
}

TEST_CASE("connections leave a process the descriptors that it needs for its files", "[common][shared_payloads]") {
  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  Side server;
  server.payloads.Listen(endpoint);
  const int first = SocketAt(endpoint, SOCK_SEQPACKET, false), second = SocketAt(endpoint, SOCK_SEQPACKET, false);
  {
    const FilesLimit limit(2 * static_cast<rlim_t>(NextDescriptor() + 1));  // the lower half has room for one socket
    server.payloads.Handle();
  }
  CHECK_FALSE(IsClosed(first));
  CHECK(IsClosed(second));
  REQUIRE(server.notes.size() == 1);
  CHECK_THAT(server.notes[0],
             Contains("half of the descriptors that this process may have are in use; raise ulimit -n"));
  close(first);
  close(second);
}

TEST_CASE("memory that the kernel does not give is noted once, with the reason", "[common][shared_payloads]") {
  Side side;
  {
    const FilesLimit limit;
    CHECK(side.memory->Allocate(kPayload) == nullptr);
    CHECK(side.memory->Allocate(kPayload) == nullptr);
  }
  side.payloads.Tend(SteadyClock::now() + seconds(1));
  side.payloads.Tend(SteadyClock::now() + seconds(2));
  REQUIRE(side.notes.size() == 1);
  CHECK_THAT(side.notes[0], Contains("this process: memory that others may read: Too many open files"));
}

TEST_CASE("a process whose memory is closed connects to nobody", "[common][shared_payloads]") {
  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  const int listener = SocketAt(endpoint, SOCK_SEQPACKET, true);
  Side client;
  client.memory->Close();
  client.payloads.Connect(kToServer, endpoint, kToClient.value);
  client.payloads.Tend(SteadyClock::now() + seconds(1));
  CHECK(accept(listener, nullptr, nullptr) == -1);
  CHECK(client.memory->Allocate(kPayload) == nullptr);
  CHECK(client.notes.empty());
  close(listener);
}

TEST_CASE("a path that cannot be listened at is noted, with its reason", "[common][shared_payloads]") {
  testing::TempFolder folder;
  Side server;
  server.payloads.Listen(LocalAddress(folder.path(), std::string(120, 'x')));
  REQUIRE(server.notes.size() == 1);
  CHECK_THAT(server.notes[0], Contains("through the socket and not through shared memory: " + folder.path()) &&
                                  Contains("xxx.m: socket: File name too long"));
  server.payloads.Listen(LocalAddress(folder.path() + "/missing", "server"));
  REQUIRE(server.notes.size() == 2);
  CHECK_THAT(server.notes[1], Contains("/missing/server.m: listen: No such file or directory"));
}

TEST_CASE("a path that cannot be connected to is noted once", "[common][shared_payloads]") {
  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  const int listener = SocketAt(endpoint, SOCK_STREAM, true);  // not the kind of socket that is expected
  Side client;
  client.payloads.Connect(kToServer, endpoint, kToClient.value);
  client.payloads.Tend(SteadyClock::now() + seconds(1));
  REQUIRE(client.notes.size() == 1);
  CHECK_THAT(client.notes[0], Contains("server.m: connect: Protocol wrong type for socket"));
  close(listener);
}

TEST_CASE("a peer's memory that cannot be mapped is noted once, and is not referred to", "[common][shared_payloads]") {
  Sides sides;
  const Slice payload = sides.server.Payload();
  CHECK_FALSE(sides.server.payloads.Refer(kToClient, payload));  // gives the region
  {
    const FilesLimit limit;
    for (int i = 0; i < 3; ++i) sides.client->payloads.Handle();
  }
  sides.Handle();
  REQUIRE(sides.client->notes.size() == 1);
  CHECK_THAT(sides.client->notes[0], Contains("a peer's memory: it cannot be mapped"));
  CHECK_FALSE(sides.server.payloads.Refer(kToClient, payload));
}

// Runs a client until it is killed. A child of it keeps its descriptors, and ends with the pipe.
[[noreturn]] void RunForkingClient(const std::string& endpoint, const int (&pipe_ends)[2]) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Side client;
  client.payloads.Connect(kToServer, endpoint, kToClient.value);
  close(pipe_ends[1]);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, 0);
    char byte = 0;
    (void)!read(pipe_ends[0], &byte, 1);
    _exit(0);
  }
  for (;;) {
    pollfd ready{client.payloads.descriptor(), POLLIN, 0};
    poll(&ready, 1, -1);
    client.payloads.Handle();
  }
}

TEST_CASE("a killed process holds nothing, also while a child of it has its descriptors", "[common][shared_payloads]") {
  testing::TempFolder folder;
  const std::string endpoint = LocalAddress(folder.path(), "server");
  Side server;
  server.payloads.Listen(endpoint);
  int pipe_ends[2];
  REQUIRE(pipe2(pipe_ends, O_CLOEXEC) == 0);
  const pid_t client = fork();
  if (client == 0) RunForkingClient(endpoint, pipe_ends);
  close(pipe_ends[0]);
  const Slice payload = server.Payload();
  Until([&] {
    server.payloads.Handle();
    return server.payloads.Refer(kToClient, payload).has_value();
  });
  CHECK(payload.owner->reference_count() == 2);
  kill(client, SIGKILL);
  REQUIRE(waitpid(client, nullptr, 0) == client);
  Until([&] {
    server.payloads.Handle();
    return payload.owner->reference_count() == 1;
  });
  server.payloads.Tend(SteadyClock::now() + seconds(2));
  CHECK_FALSE(server.payloads.Refer(kToClient, payload));
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace capstan
