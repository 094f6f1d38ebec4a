#include "common/wire/shared_payloads.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "common/base/hash.h"
#include "common/base/process_address.h"
#include "common/wire/messages/push.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::Bytes;
using testing::Recorder;
using testing::RunUntil;
using testing::Until;

constexpr std::size_t kBlock = std::size_t{1} << 20;

// A process: its memory, a pool in it, and its transport.
struct Process {
  Process() {
    TransportOptions options;
    options.memory = memory;
    options.coalesces = true;  // so that references travel with other messages
    options.place = [this](PeerId, const Principal&, const Header& header, std::size_t bytes) {
      return place ? place(header, bytes) : nullptr;
    };
    options.lend = [this](PeerId, const Principal&, const Header& header, std::size_t) { return lend && lend(header); };
    transport = CreateZmqTransport(options, &counters);
  }
  Slice Filled(std::uint8_t value, std::size_t size = kBlock) {
    BufferRef buffer = pool.Take();
    std::memset(buffer->data(), value, size);
    const std::byte* data = buffer->data();
    return {std::move(buffer), data, size};
  }

  std::shared_ptr<SharedMemory> memory = std::make_shared<SharedMemory>();
  BufferPool pool{kBlock, memory};
  TransportCounters counters;
  Recorder got;
  std::function<std::byte*(const Header&, std::size_t)> place;
  std::function<bool(const Header&)> lend;
  std::unique_ptr<Transport> transport;
};

struct Two {
  Two() : server(std::make_unique<Process>()), client(std::make_unique<Process>()) {
    endpoint = server->transport->Bind(LocalAddress(folder.path(), "server")).value();
    to_server = client->transport->Connect(endpoint, Role::kServer).value();
    Meet();
  }
  void Run(const std::function<bool()>& done) {
    RunUntil({{server->transport.get(), &server->got}, {client->transport.get(), &client->got}}, done);
  }
  // Sends payloads, first to the server and then to the client, until one is read where it lies.
  void Meet() {
    SendUntilShared(client.get(), server.get(), to_server);
    to_client = server->got.messages.back().from;
    SendUntilShared(server.get(), client.get(), to_client);
    server->got.messages.clear();
    client->got.messages.clear();
  }
  void SendUntilShared(Process* from, Process* to, PeerId peer) {
    const std::uint64_t shared = from->counters.payloads_shared;
    Until([&] {
      const std::size_t before = to->got.messages.size();
      (void)from->transport->Send(peer, {Push(), from->Filled(1)}).ok();
      Run([&] { return to->got.messages.size() > before; });
      return from->counters.payloads_shared > shared;
    });
  }

  testing::TempFolder folder;
  std::unique_ptr<Process> server, client;
  std::string endpoint;
  PeerId to_server, to_client;
};

TEST_CASE("a payload in shared memory is read where it lies, in both directions", "[common][shared_payloads]") {
  Two two;
  const std::uint64_t sent = two.client->counters.payload_messages_out, shared = two.client->counters.payloads_shared;
  const std::uint64_t answered = two.server->counters.payloads_shared;
  for (std::uint8_t i = 1; i <= 3; ++i) {
    REQUIRE(two.client->transport->Send(two.to_server, {Push(), two.client->Filled(i, kBlock - i)}).ok());
    REQUIRE(two.server->transport->Send(two.to_client, {Push(), two.server->Filled(9, kBlock - i)}).ok());
  }
  two.Run([&] { return two.server->got.messages.size() == 3 && two.client->got.messages.size() == 3; });
  for (std::uint8_t i = 1; i <= 3; ++i) {
    CHECK(Bytes(two.server->got.messages[i - 1u].message.payload) == std::vector<std::byte>(kBlock - i, std::byte{i}));
    CHECK(Bytes(two.client->got.messages[i - 1u].message.payload) == std::vector<std::byte>(kBlock - i, std::byte{9}));
  }
  CHECK(two.client->counters.payload_messages_out - sent == 3);
  CHECK(two.client->counters.payloads_shared - shared == 3);
  CHECK(two.server->counters.payloads_shared - answered == 3);
}

TEST_CASE("what is sent is the receiver's own: a sender that writes to it again changes nothing",
          "[common][shared_payloads]") {
  Two two;
  const Slice payload = two.client->Filled(5);
  REQUIRE(two.client->transport->Send(two.to_server, {Push(), payload}).ok());
  two.Run([&] { return two.server->got.messages.size() == 1; });
  std::memset(payload.owner->data(), 6, kBlock);
  CHECK(Bytes(two.server->got.messages[0].message.payload) == std::vector<std::byte>(kBlock, std::byte{5}));
}

TEST_CASE("a payload is copied to where the receiver wants it", "[common][shared_payloads]") {
  Two two;
  std::vector<std::byte> place(kBlock);
  std::vector<BlockIndex> asked;
  two.server->place = [&](const Header& header, std::size_t bytes) {
    asked.push_back(header.As<Push>()->block);
    return asked.back() == 3 && bytes == kBlock ? place.data() : nullptr;
  };
  Push push;
  for (const BlockIndex block : {BlockIndex{2}, BlockIndex{3}}) {
    push.block = block;
    const Slice payload = two.client->Filled(static_cast<std::uint8_t>(block));
    REQUIRE(two.client->transport->Send(two.to_server, {push, payload}).ok());
    two.Run([&] { return two.server->got.messages.size() == block - 1 && payload.owner->reference_count() == 1; });
  }
  CHECK(asked == std::vector<BlockIndex>{2, 3});
  const Slice& own = two.server->got.messages[0].message.payload;
  const Slice& placed = two.server->got.messages[1].message.payload;
  CHECK(Bytes(own) == std::vector<std::byte>(kBlock, std::byte{2}));
  CHECK(own.owner);
  CHECK(placed.data == place.data());
  CHECK_FALSE(placed.owner);
  CHECK(place == std::vector<std::byte>(kBlock, std::byte{3}));
}

TEST_CASE("a lent payload stays its sender's, and its sender is notified once it was read",
          "[common][shared_payloads]") {
  Two two;
  two.server->lend = [](const Header& header) { return header.As<Push>()->block == 3; };
  const Slice payload = two.client->Filled(7);
  bool was_read = false;
  const auto read = [&](PeerId, const Principal&, const Message& message) {
    REQUIRE_FALSE(message.payload.owner);
    REQUIRE(message.payload.size == kBlock);
    CHECK(message.payload.data[kBlock - 1] == std::byte{7});
    payload.owner->data()[kBlock - 1] = std::byte{8};
    CHECK(message.payload.data[kBlock - 1] == std::byte{8});
    two.client->transport->Poll(std::chrono::milliseconds(0), two.client->got.Callback());
    CHECK(payload.owner->reference_count() == 2);  // not notified yet
    was_read = true;
  };
  Push push;
  push.block = 3;
  REQUIRE(two.client->transport->Send(two.to_server, {push, payload}).ok());
  two.client->transport->Poll({}, two.client->got.Callback());  // sends it
  Until([&] { return two.server->transport->Poll(std::chrono::milliseconds(10), read), was_read; });
  two.Run([&] { return payload.owner->reference_count() == 1; });
  push.block = 4;
  REQUIRE(two.client->transport->Send(two.to_server, {push, two.client->Filled(9)}).ok());
  two.Run([&] { return two.server->got.messages.size() == 1; });
  CHECK(two.server->got.messages[0].message.payload.owner);
}

TEST_CASE("a lent payload stays readable while it is read, whatever becomes of its sender",
          "[common][shared_payloads]") {
  Two two;
  two.client->lend = [](const Header&) { return true; };
  REQUIRE(two.server->transport->Send(two.to_client, {Push(), two.server->Filled(7)}).ok());
  two.server->transport->Poll({}, two.server->got.Callback());  // sends it
  bool was_read = false;
  const auto read = [&](PeerId, const Principal&, const Message& message) {
    two.server.reset();
    two.client->transport->Disconnect(two.to_server);  // which unmaps what nobody reads
    CHECK(Bytes(message.payload) == std::vector<std::byte>(kBlock, std::byte{7}));
    was_read = true;
  };
  Until([&] { return two.client->transport->Poll(std::chrono::milliseconds(10), read), was_read; });
}

TEST_CASE("a sender that writes to what it has sent is found by the hash", "[common][shared_payloads]") {
  Two two;
  const Slice payload = two.client->Filled(5);
  Push push;
  push.payload_hash = Hash64(payload.bytes());
  REQUIRE(two.client->transport->Send(two.to_server, {push, payload}).ok());
  payload.owner->data()[kBlock / 2] = std::byte{6};  // the server has not copied it yet
  two.Run([&] { return two.server->got.messages.size() == 1; });
  CHECK(Hash64(two.server->got.messages[0].message.payload.bytes()) != push.payload_hash);
}

TEST_CASE("small payloads and private memory go through the socket", "[common][shared_payloads]") {
  Two two;
  const std::uint64_t shared = two.client->counters.payloads_shared;
  REQUIRE(two.client->transport->Send(two.to_server, {Push(), two.client->Filled(2, 5000)}).ok());
  REQUIRE(two.client->transport->Send(two.to_server, {Push(), testing::MakePayload(kBlock, 1)}).ok());
  two.Run([&] { return two.server->got.messages.size() == 2; });
  CHECK(two.client->counters.payloads_shared == shared);
  CHECK(two.server->got.messages[0].message.payload.size == 5000);
  CHECK(Bytes(two.server->got.messages[1].message.payload) == Bytes(testing::MakePayload(kBlock, 1)));
}

TEST_CASE("a payload is kept until the receiver has copied it, and not longer", "[common][shared_payloads]") {
  Two two;
  const Slice payload = two.client->Filled(5);
  REQUIRE(two.client->transport->Send(two.to_server, {Push(), payload}).ok());
  CHECK(payload.owner->reference_count() == 2);
  two.Run([&] { return payload.owner->reference_count() == 1; });
  CHECK(two.server->got.messages.size() == 1);
}

TEST_CASE("a receiver that ends holds nothing, and the next one at its address gets a connection of its own",
          "[common][shared_payloads]") {
  Two two;
  const Slice payload = two.client->Filled(5);
  REQUIRE(two.client->transport->Send(two.to_server, {Push(), payload}).ok());
  CHECK(payload.owner->reference_count() == 2);
  two.server = nullptr;
  Until([&] {
    two.client->transport->Poll(std::chrono::milliseconds(1), two.client->got.Callback());
    return payload.owner->reference_count() == 1;
  });
  two.server = std::make_unique<Process>();
  REQUIRE(two.server->transport->Bind(two.endpoint).ok());
  two.Meet();
}

TEST_CASE("what a process has sent before its end still arrives", "[common][shared_payloads]") {
  Two two;
  REQUIRE(two.server->transport->Send(two.to_client, {Push(), two.server->Filled(7)}).ok());
  CHECK(two.server->counters.payloads_shared > 0);
  two.server = nullptr;  // its queue leaves first
  Until([&] {
    two.client->transport->Poll(std::chrono::milliseconds(1), two.client->got.Callback());
    return two.client->got.messages.size() == 1;
  });
  CHECK(Bytes(two.client->got.messages[0].message.payload) == std::vector<std::byte>(kBlock, std::byte{7}));
  CHECK(two.client->counters.payloads_lost == 0);
}

TEST_CASE("a client that disconnects holds nothing", "[common][shared_payloads]") {
  Two two;
  const Slice payload = two.server->Filled(5);
  REQUIRE(two.server->transport->Send(two.to_client, {Push(), payload}).ok());
  two.client->transport->Disconnect(two.to_server);
  Until([&] {
    two.server->transport->Poll(std::chrono::milliseconds(1), two.server->got.Callback());
    return payload.owner->reference_count() == 1;
  });
}

// ---- a hostile peer ------------------------------------------------------------------------------------------------

// Both ends of a connection. The second one's process breaks the rules.
struct Connection {
  Connection() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    honest = std::make_unique<MemoryPeer>(ends[0], memory);
    hostile = std::make_unique<MemoryPeer>(ends[1], hostile_memory);
    REQUIRE(hostile->Greet(11, 12));
    REQUIRE(honest->Read());
    REQUIRE(honest->Greet(honest->id(), honest->caller()));
    REQUIRE(hostile->Read());
    hostile_memory->Allocate(kBlock);
  }
  PayloadReference Referred() {
    BufferPool pool(kBlock, hostile_memory);
    CHECK_FALSE(hostile->Refer(WholeBuffer(pool.Take())));  // the peer has not mapped the region yet
    REQUIRE(honest->Read());
    return hostile->Refer(WholeBuffer(pool.Take())).value();
  }

  std::shared_ptr<SharedMemory> memory = std::make_shared<SharedMemory>();
  std::shared_ptr<SharedMemory> hostile_memory = std::make_shared<SharedMemory>(4 * kBlock);
  std::unique_ptr<MemoryPeer> honest, hostile;
};

TEST_CASE("a reference names bytes of its sender's regions, once", "[common][shared_payloads]") {
  Connection connection;
  const PayloadReference good = connection.Referred();
  PayloadReference bad = good;
  bad.connection = 5;
  CHECK(connection.honest->Find(bad).status().code() == Code::kStale);
  bad = good;
  bad.region = 1;
  CHECK(connection.honest->Find(bad).status().code() == Code::kCorrupt);
  bad.region = UINT32_MAX;
  CHECK(connection.honest->Find(bad).status().code() == Code::kCorrupt);
  bad = good;
  bad.offset = 4 * kBlock;
  CHECK_THAT(connection.honest->Find(bad).status().message(),
             Contains("1048576 bytes from byte 4194304 of a region of 4194304"));
  bad.offset = UINT64_MAX;
  CHECK(connection.honest->Find(bad).status().code() == Code::kCorrupt);
  bad = good;
  bad.size = UINT64_MAX;
  CHECK(connection.honest->Find(bad).status().code() == Code::kCorrupt);
  REQUIRE(connection.honest->Find(good).ok());
  connection.honest->Copied(good);
  CHECK(connection.honest->Find(good).status().code() == Code::kCorrupt);  // its sender may have written over it
}

// Sends the packet of a connection: what it is, the connection's number, that of the caller, and a size; with a
// descriptor from 0.
void SendPacket(int socket, std::uint64_t kind, std::uint64_t memory_bytes, int descriptor, std::size_t size = 32,
                std::size_t descriptors = 1) {
  std::uint64_t packet[4] = {kind, 11, 12, memory_bytes};
  iovec part{packet, size};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    *CMSG_FIRSTHDR(&message) = cmsghdr{CMSG_LEN(descriptors * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    const int given[2] = {descriptor, descriptor};
    std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), given, descriptors * sizeof(int));
  }
  REQUIRE(sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size));
}

constexpr std::uint64_t kGreeting = 0x316e6c6d70616331, kRegion = 0x326e6c6d70616331;

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("a connection ends with the first packet that breaks its rules", "[common][shared_payloads]") {
  Connection connection;
  const SharedMemory::Region& region = connection.hostile_memory->region(0);
  const int unsealed = memfd_create("test", MFD_CLOEXEC);
  REQUIRE(ftruncate(unsealed, 4096) == 0);
  const int write_only = open(("/proc/self/fd/" + std::to_string(region.descriptor)).c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(write_only >= 0);
  const int socket = connection.hostile->descriptor();
  const std::vector<std::function<void()>> packets = {
      [&] { SendPacket(socket, kRegion, region.size, -1); },
      [&] { SendPacket(socket, kRegion, region.size, region.descriptor, 1); },
      [&] { SendPacket(socket, kRegion, region.size, region.descriptor, 31); },
      [&] { SendPacket(socket, kRegion, region.size + 1, region.descriptor); },
      [&] { SendPacket(socket, kRegion, 4096, unsealed); },
      [&] { SendPacket(socket, kRegion + 1, region.size, region.descriptor); },
      [&] { SendPacket(socket, kRegion, region.size, region.descriptor, 32, 2); },  // two descriptors
      [&] { SendPacket(socket, kGreeting, region.size, region.descriptor); },       // a second one
      [&] { SendPacket(socket, kRegion, region.size, region.descriptor, 0); },      // not the end of the connection
      [&] { SendPacket(socket, kRegion, region.size, write_only); },
  };
  const std::size_t which = GENERATE(range(0, 10));
  INFO("packet " << which);
  const std::size_t open = OpenDescriptors();
  packets[which]();
  CHECK_FALSE(connection.honest->Read());
  CHECK(OpenDescriptors() == open);
  BufferPool pool(kBlock, connection.memory);
  CHECK_FALSE(connection.honest->Refer(WholeBuffer(pool.Take())));
  close(unsealed);
  close(write_only);
}

TEST_CASE("a connection ends with a Greeting whose memory is no page", "[common][shared_payloads]") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  MemoryPeer honest(ends[0], std::make_shared<SharedMemory>());
  SharedMemory large(8192);
  REQUIRE(large.Allocate(8192) != nullptr);
  SendPacket(ends[1], kGreeting, 8192, large.region(0).descriptor);
  CHECK_FALSE(honest.Read());
  close(ends[1]);
}

TEST_CASE("regions without room are counted, but not mapped", "[common][shared_payloads]") {
  Connection connection;
  const SharedMemory::Region& region = connection.hostile_memory->region(0);
  MappingRoom room{.regions = 1};
  for (std::size_t i = 0; i < SharedMemory::kRegionsMax; ++i) {
    SendPacket(connection.hostile->descriptor(), kRegion, region.size, region.descriptor);
    REQUIRE(connection.honest->Read(&room));
  }
  CHECK(connection.honest->region_count() == 1);
  CHECK(connection.honest->region_bytes() == region.size);
  CHECK(connection.honest->mapping_error() == EDQUOT);
  SendPacket(connection.hostile->descriptor(), kRegion, region.size, region.descriptor);
  CHECK_FALSE(connection.honest->Read(&room));
}

TEST_CASE("a process has no more regions than a connection takes", "[common][shared_payloads]") {
  Connection connection;
  const SharedMemory::Region& region = connection.hostile_memory->region(0);
  for (std::size_t i = 0; i < SharedMemory::kRegionsMax; ++i) {
    SendPacket(connection.hostile->descriptor(), kRegion, region.size, region.descriptor);
    REQUIRE(connection.honest->Read());
  }
  SendPacket(connection.hostile->descriptor(), kRegion, region.size, region.descriptor);
  CHECK_FALSE(connection.honest->Read());
}

TEST_CASE("a peer that reads nothing is sent no more references", "[common][shared_payloads]") {
  Connection connection;
  BufferPool pool(64, connection.memory);
  CHECK_FALSE(connection.honest->Refer(WholeBuffer(pool.Take())));
  REQUIRE(connection.hostile->Read());
  for (std::size_t i = 0; i < MemoryPeer::kReferencesMax; ++i)
    REQUIRE(connection.honest->Refer(WholeBuffer(pool.Take())));
  CHECK_FALSE(connection.honest->Refer(WholeBuffer(pool.Take())));
  CHECK(pool.in_use_bytes() == 64 * MemoryPeer::kReferencesMax);
  connection.honest = nullptr;
  CHECK(pool.in_use_bytes() == 0);
}

}  // namespace
}  // namespace capstan
