// Sends random bytes and random messages to every socket of a job: they are counted and refused, and the job reaches
// the same end.
#include <arpa/inet.h>
#include <capstan/client.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>

#include "common/base/random.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/zmq_transport.h"
#include "server/net/payloads_in_flight.h"
#include "tests/catch.h"
#include "tests/common/wire/random_messages.h"
#include "tests/e2e/in_process_job.h"
#include "tests/tier.h"

namespace capstan {
namespace {

using e2e::InProcessJob;
using server::PayloadsInFlight;

constexpr std::uint64_t kSteps = 30;

EditableJobConfig MakeConfig() {
  EditableJobConfig config;
  config.job.mode = Mode::kSync;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = 3;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.25;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 60;
  return config;
}

// Returns the port of "tcp://127.0.0.1:port".
int PortOf(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

// Sends bytes that are not ZeroMQ to a listening socket.
void SendRawBytes(const std::string& endpoint, RandomStream& random) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(PortOf(endpoint)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    std::vector<unsigned char> bytes(1 + random.Below(300));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.Next());
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  close(fd);
}

// Returns a message of any kind with random values in its fields, sometimes with a payload. About half of the messages
// carry the running job's generation and incarnation; none carries a session of the job.
Message RandomMessage(RandomStream& random, Generation generation, Incarnation incarnation) {
  Header header = testing::RandomHeader(random.Below(std::variant_size_v<MessageVariant>), random);
  if (random.Below(2) == 0) {
    std::visit(
        [&](auto& body) {
          if constexpr (requires { body.generation = generation; }) body.generation = generation;
          if constexpr (requires { body.incarnation = incarnation; }) body.incarnation = incarnation;
        },
        header.any());
  }
  Slice payload;
  if (random.Below(3) == 0) {
    BufferPool pool(1 + random.Below(1 << 16));
    BufferRef buffer = pool.Take();
    std::memset(buffer->data(), static_cast<int>(random.Next() & 0xFF), buffer->size());
    payload = WholeBuffer(std::move(buffer));
  }
  return {std::move(header), std::move(payload)};
}

// Attacks until `stop`; `sent` counts the messages sent.
void Attack(const std::vector<std::string>& endpoints, std::atomic<std::uint64_t>& sent, std::atomic<bool>& stop) {
  RandomStream random(testing::TestSeed() + 17);
  std::unique_ptr<Transport> transport = CreateZmqTransport({});
  std::vector<PeerId> peers;
  for (const std::string& endpoint : endpoints) peers.push_back(std::move(transport->Connect(endpoint)).value());
  while (!stop.load()) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const Message message = RandomMessage(random, Generation{1}, Incarnation{1 + random.Below(2)});
      // The attacker may guess a member's name and send a Leave or Join for it. That must not cause a crash or another
      // result.
      if (transport->Send(peers[i], message).ok()) ++sent;
      if (random.Below(20) == 0) SendRawBytes(endpoints[i], random);
    }
    transport->Poll(std::chrono::milliseconds(1), [](PeerId, const Principal&, Message) {});
    sent.notify_all();
  }
}

WorkerDescription Describe() {
  WorkerDescription description;
  description.tensors = {{"large", {3, 131072}}, {"small", {5}}};
  return description;
}

Status Train(const std::string& coordinator, const WorkerDescription& description, std::atomic<std::uint64_t>& rounds,
             const std::function<void()>& each) {
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                           Client::Connect({.coordinator = coordinator, .worker = "honest", .on_notice = {}}));
  CAPSTAN_RETURN_IF_ERROR(client->Declare(description));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const auto last = static_cast<std::uint32_t>(description.tensors.size() - 1);
  for (;;) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> work, client->NextWork(deadline));
    if (!work) return {};
    each();
    ++rounds;
    for (std::uint32_t slot : work->slots) {
      CAPSTAN_ASSIGN_OR_RETURN(float* const gradient, client->BeginSlot(slot, 1));
      if (!client->WaitWeights(0, last, deadline).ok()) break;
      std::fill_n(gradient, client->element_count(), 1.0F);
      CAPSTAN_RETURN_IF_ERROR(client->GradientReady(0, last));
      if (!client->EndSlot(slot, {.loss_sum = 2.0, .predictions = 1}).ok()) break;
    }
  }
}

}  // namespace

TEST_CASE("random bytes and messages on every socket change nothing", "[e2e][hostile]") {
  InProcessJob job(MakeConfig());
  job.StartShard(0);
  job.StartShard(1);
  std::vector<std::string> endpoints = {job.coordinator->endpoint()};
  for (const auto& shard : job.shards) endpoints.push_back(shard->endpoint());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> rounds{0}, sent{0};
  std::future<void> attack;
  // The attack begins when the job runs, because the attacker can guess more then. Each round waits until ten messages
  // have been sent for each round so far.
  const Status status = Train(job.address(), Describe(), rounds, [&] {
    if (!attack.valid()) attack = std::async(std::launch::async, Attack, endpoints, std::ref(sent), std::ref(stop));
    for (std::uint64_t now = sent; now < 10 * rounds; now = sent) sent.wait(now);
  });
  stop.store(true);
  attack.get();
  INFO(status.message());
  CHECK(status.ok());
  CHECK(sent > 100);
  REQUIRE(job.WaitForEnds(3));
  INFO(job.coordinator->outcome().message());
  CHECK(job.coordinator->outcome().ok());
  const Result<SafetensorsFile> file = ReadSafetensors(job.folder.path() + "/final.safetensors");
  REQUIRE(file.ok());
  std::vector<float> values(file->data.size() / sizeof(float));
  std::memcpy(values.data(), file->data.data(), file->data.size());
  CHECK(values.front() == -0.25F * kSteps);
  CHECK(values[300000] == -0.25F * kSteps);
}

std::uint64_t ResidentBytes() {
  std::uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_CASE("a peer that pulls every version and reads none keeps few of them in memory", "[e2e][hostile][long]") {
  constexpr std::uint64_t kVersions = 300, kBlockBytes = std::uint64_t{1} << 20;
  EditableJobConfig config = MakeConfig();
  config.job.steps = kVersions;
  config.cluster.servers = 1;
  InProcessJob job(config);
  job.StartShard(0);
  TransportOptions one_message;  // beyond it the attacker's own socket reads nothing, either
  one_message.queue_messages_max = 1;
  std::unique_ptr<Transport> transport = CreateZmqTransport(one_message);
  const PeerId shard = std::move(transport->Connect(job.shards[0]->endpoint())).value();
  WorkerDescription description;
  description.tensors = {{"block", {kBlockBytes / sizeof(float)}}};
  std::atomic<std::uint64_t> rounds{0};
  std::uint64_t before = 0, most = 0;
  const Status status = Train(job.address(), description, rounds, [&] {
    Pull pull;
    pull.generation = Generation{1};
    pull.incarnation = Incarnation{1};
    pull.version = Version{rounds};
    pull.blocks = {0};
    (void)transport->Send(shard, {std::move(pull), {}}).ok();
    if (rounds == 20) before = ResidentBytes();
    most = std::max(most, ResidentBytes());
  });
  INFO(status.message());
  CHECK(status.ok());
  CHECK(rounds == kVersions);
  CHECK(before > 0);
  CAPTURE(before, most);
  CHECK(most < before + 2 * PayloadsInFlight::kPeerBytesMax);
}

TEST_CASE("ten thousand refused Joins and Hellos leave few lines of log, without control bytes", "[e2e][hostile]") {
  constexpr int kOfEach = 5000, kAtOnce = 100;
  std::string log;
  {
    InProcessJob job(MakeConfig(), [&log](const Notice& notice) { log += notice.text + "\n"; });
    std::unique_ptr<Transport> transport = CreateZmqTransport({});
    const PeerId coordinator = std::move(transport->Connect(job.coordinator->endpoint())).value();
    Join join;
    join.worker = "first";
    join.catalog = {{"a", {4}, {InitKind::kZeros, 0.0F}, true}};
    int answers = 0;
    const auto send = [&](Header header) {
      REQUIRE(transport->Send(coordinator, {std::move(header), {}}).ok());
      --answers;
    };
    // The answers are awaited, so no message is refused because a queue is full.
    const auto read = [&] {
      while (answers < 0)
        transport->Poll(std::chrono::seconds(60), [&](PeerId, const Principal&, const Message&) { ++answers; });
    };
    send(join);
    read();
    join.catalog[0].name = "\x1B]0;title\x07\n12:00:00.000 done: all steps are committed" + std::string(6000, 'A');
    Hello hello;
    hello.shard = 99;
    hello.endpoint = join.catalog[0].name;
    for (int i = 0; i < kOfEach; ++i) {
      join.worker = "stranger-" + std::to_string(i);
      join.nonce = static_cast<std::uint64_t>(i);
      send(join);
      send(hello);
      if (i % kAtOnce == 0) read();
    }
    read();
  }
  CAPTURE(log.size());
  CHECK(log.size() < (64 << 10));
  CHECK(log.find("more like it in the last second)") != std::string::npos);
  CHECK(std::none_of(log.begin(), log.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7F'; }));
}

}  // namespace capstan
