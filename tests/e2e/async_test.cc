// Mode async over real sockets: a slow worker delays no other worker, and no pull returns half of an update.
#include <capstan/client.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "common/wire/zmq_transport.h"
#include "tests/catch.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"

namespace capstan {
namespace {

using e2e::InProcessJob;

constexpr std::uint32_t kSlots = 4;
constexpr std::uint64_t kSteps = 12;

EditableJobConfig MakeConfig(std::uint32_t shards) {
  EditableJobConfig config;
  config.job.mode = Mode::kAsync;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = kSlots;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.05;
  config.cluster.servers = shards;
  config.cluster.workers = config.cluster.min_workers = kSlots;
  config.limits.join = config.limits.stall = 60;
  return config;
}

// Declares a tensor of two and a half blocks, and a small tensor.
WorkerDescription Describe() {
  WorkerDescription description;
  description.tensors = {{"large", {5, 131072}}, {"small", {7}}};
  return description;
}

struct Observed {
  Status status;
  std::vector<double> losses;  // of 1/2 (w - 1)^2 at the first weight
  std::uint64_t torn_blocks = 0;
};

// Trains with gradients w - 1. Every weight of a tensor starts at 0 and gets the same gradient, so all weights of a
// block are always equal: a pull of half an update would show two values.
Observed Train(const std::string& coordinator, const std::string& name, const std::function<void()>& before_slot) {
  Observed observed;
  Result<std::unique_ptr<Client>> connected =
      Client::Connect({.coordinator = coordinator, .worker = name, .on_notice = {}});
  observed.status = connected.status();
  if (!observed.status.ok()) return observed;
  Client& client = **connected;
  observed.status = client.Declare(Describe());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120 * testing::Patience());
  while (observed.status.ok()) {
    Result<std::optional<Work>> work = client.NextWork(deadline);
    observed.status = work.status();
    if (!work.ok() || !*work) return observed;
    before_slot();
    float* gradient = client.BeginSlot((**work).slots.front(), 1).value();
    if (!client.WaitWeights(0, 1, deadline).ok()) continue;
    const float* weights = client.weights();
    for (std::uint64_t block = 0; block < 5 * 131072; block += kBlockElements) {
      const std::uint64_t end = std::min<std::uint64_t>(block + kBlockElements, 5 * 131072);
      for (std::uint64_t i = block; i < end; ++i) {
        if (weights[i] != weights[block]) {
          ++observed.torn_blocks;
          break;
        }
      }
    }
    for (std::uint64_t i = 0; i < client.element_count(); ++i) gradient[i] = weights[i] - 1.0F;
    observed.losses.push_back(0.5 * (weights[0] - 1.0) * (weights[0] - 1.0));
    observed.status = client.GradientReady(0, 1);  // not a CHECK: the runner belongs to the main thread
    (void)client.EndSlot((**work).slots.front(), {.loss_sum = observed.losses.back(), .predictions = 1}).ok();
  }
  return observed;
}

constexpr std::uint32_t kWholeBlocks = 4;
constexpr std::uint32_t kPullsAtOnce = 5;  // so that all answers are less than what a shard keeps for a slow peer
constexpr std::uint32_t kPushes = 2;

// A peer of a shard that sends what the test asks for. All its messages take one connection, so the shard handles them
// in order. The peer has almost no receive buffer, so until it reads, answers to its pulls wait in the shard's memory.
class LatePeer {
 public:
  LatePeer(const std::string& shard, SessionId session)
      : transport_(CreateZmqTransport({.queue_messages_max = 1})),
        shard_(std::move(transport_->Connect(shard)).value()),
        session_(session) {}

  void Pull() {
    capstan::Pull pull{kGeneration, kIncarnation, session_, Version{0}, {}, 0, Encoding::kFp32, {}, false};
    for (BlockIndex block = 0; block < kWholeBlocks; ++block) pull.blocks.push_back(block);
    Send({std::move(pull), {}});
  }
  // Pushes a gradient of 1 everywhere, as the first push of this slot.
  void Push(SlotIndex slot) {
    BufferPool pool(kBlockElements * sizeof(float));
    BufferRef ones = pool.Take();
    std::fill_n(ones.As<float>(), kBlockElements, 1.0F);
    const Slice payload = WholeBuffer(std::move(ones));
    const std::uint64_t hash = Hash64(payload.bytes());
    for (BlockIndex block = 0; block < kWholeBlocks; ++block) {
      Send({capstan::Push{kGeneration,
                          kIncarnation,
                          session_,
                          Step{1},
                          Node{slot, slot + 1},
                          block,
                          1,
                          hash,
                          Encoding::kFp32,
                          {},
                          1.0F},
            payload});
    }
    SlotReport report;
    report.slot = slot;
    report.samples = report.predictions = 1;
    Send({EndSlot{kGeneration, kIncarnation, session_, Step{1}, report, {}}, {}});
  }
  // Reads until `blocks` blocks have arrived, or a refusal, which fails the test.
  std::vector<Message> Read(std::size_t blocks) {
    std::vector<Message> read;
    std::string refused;
    testing::Until([&] {
      transport_->Poll(std::chrono::milliseconds(1), [&](PeerId, const Principal&, Message message) {
        if (const auto* error = message.header.As<Error>()) refused = error->message;
        if (message.header.Is<Weights>()) read.push_back(std::move(message));
      });
      return read.size() >= blocks || !refused.empty();
    });
    CHECK(refused.empty());
    return read;
  }
  // Whether the shard has applied the first push of each of these slots.
  bool HasApplied(const std::vector<SlotIndex>& slots) {
    bool all = false;
    (void)transport_->Send(shard_, {CoverageQuery{kGeneration, kIncarnation, session_, Step{1}}, {}}).ok();
    transport_->Poll(std::chrono::milliseconds(1), [&](PeerId, const Principal&, const Message& message) {
      const auto* staged = message.header.As<Staged>();
      all = staged != nullptr && std::all_of(slots.begin(), slots.end(), [&](SlotIndex slot) {
              return slot < staged->clocks.size() && staged->clocks[slot] == SequenceNumber{1};
            });
    });
    return all;
  }

 private:
  static constexpr Generation kGeneration{1};
  static constexpr Incarnation kIncarnation{1};

  void Send(const Message& message) {
    testing::Until([&] {
      const bool sent = transport_->Send(shard_, message).ok();
      if (!sent) std::this_thread::yield();
      return sent;
    });
  }

  const std::unique_ptr<Transport> transport_;
  const PeerId shard_;
  const SessionId session_;
};

// Joins a running job as a worker that then says nothing more. Returns the view with its session and slots.
View JoinJob(const std::string& coordinator) {
  const std::unique_ptr<Transport> transport = CreateZmqTransport({});
  const PeerId peer = std::move(transport->Connect("tcp://" + coordinator)).value();
  Join join;
  join.worker = "late";
  join.nonce = 9;
  View view;
  testing::Until([&] {
    (void)transport->Send(peer, {join, {}}).ok();
    transport->Poll(std::chrono::milliseconds(10), [&](PeerId, const Principal&, const Message& message) {
      if (const auto* received = message.header.As<View>()) view = *received;
    });
    if (join.catalog.empty()) join.catalog = view.catalog;
    return view.session.value != 0;
  });
  return view;
}

// Whether the block has had exactly `updates` updates, each of which adds -0.25 to every number.
bool IsOfVersion(const Message& message, std::uint64_t updates) {
  const Weights& weights = message.header.Get<Weights>();
  const auto* values = reinterpret_cast<const float*>(message.payload.data);
  const float expected = -0.25F * static_cast<float>(updates);
  return weights.updates == updates && message.payload.size == kBlockElements * sizeof(float) &&
         weights.payload_hash == Hash64(message.payload.bytes()) &&
         std::all_of(values, values + kBlockElements, [&](float value) { return value == expected; });
}

}  // namespace

TEST_CASE("async: three workers finish all their steps while the fourth stands still", "[e2e][async]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  job.StartShard(1);
  std::atomic<std::uint64_t> computed_by_fast{0};
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::vector<std::future<Observed>> workers;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const std::function<void()> before = i == 0 ? std::function<void()>([released] { released.wait(); }) : [&] {
      // The last step of the three fast workers releases the slow one.
      if (++computed_by_fast == (kSlots - 1) * kSteps) release.set_value();
    };
    workers.push_back(std::async(std::launch::async, Train, job.address(), "w" + std::to_string(i), before));
  }
  std::uint64_t rounds = 0;
  for (std::future<Observed>& worker : workers) {
    const Observed observed = worker.get();
    INFO(observed.status.message());
    CHECK(observed.status.ok());
    CHECK(observed.torn_blocks == 0);
    rounds += observed.losses.size();
    REQUIRE(!observed.losses.empty());
    CHECK(observed.losses.back() <= observed.losses.front());
  }
  CHECK(rounds >= kSlots * kSteps);
  REQUIRE(job.WaitForEnds(3));
  CHECK(job.coordinator->outcome().ok());
}

TEST_CASE("async: a block that waits to be read stays as it was while pushes are applied to it", "[e2e][async]") {
  EditableJobConfig config = MakeConfig(1);
  config.optimizer.lr = 0.25;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.lease = 60;
  InProcessJob job(config);
  job.StartShard(0);
  const std::unique_ptr<Client> worker =
      Client::Connect({.coordinator = job.coordinator->endpoint(), .worker = "w", .on_notice = {}}).value();
  REQUIRE(worker->Declare({.tensors = {{"large", {kWholeBlocks, kBlockElements}}}}).ok());
  REQUIRE(worker->NextWork(std::chrono::steady_clock::now() + std::chrono::seconds(60 * testing::Patience())).ok());

  const View view = JoinJob(job.address());
  REQUIRE(view.slots.size() == kPushes);
  const std::string& shard = job.shards[0]->endpoint();
  LatePeer late(shard, view.session), other(shard, view.session);
  for (std::uint32_t push = 0; push <= kPushes; ++push) {
    for (std::uint32_t i = 0; i < kPullsAtOnce; ++i) late.Pull();
    if (push < kPushes) late.Push(view.slots[push]);
  }
  testing::Until([&] { return other.HasApplied(view.slots); });
  constexpr std::size_t kBlocksAtOnce = kPullsAtOnce * kWholeBlocks;
  const std::vector<Message> read = late.Read((kPushes + 1) * kBlocksAtOnce);
  REQUIRE(read.size() == (kPushes + 1) * kBlocksAtOnce);
  std::uint64_t torn = 0;
  for (std::size_t i = 0; i < read.size(); ++i) torn += IsOfVersion(read[i], i / kBlocksAtOnce) ? 0 : 1;
  CHECK(torn == 0);
}

}  // namespace capstan
