// A whole job of real cores, a coordinator and two shards, with a correct worker. Messages of strangers during the job
// prevent no step, and change no weight.
#include <deque>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/error.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/shard.h"
#include "server/storage/memory_snapshot_store.h"
#include "tests/catch.h"
#include "tests/common/wire/hostile_messages.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

using testing::HostileMessages;

constexpr PeerId kCoordinatorPeer{1}, kWorkerPeer{200}, kStrangerPeer{300}, kMemberPeer{301};
constexpr std::uint32_t kTwoShards = 2;
constexpr SlotIndex kTwoSlots = 2;
constexpr std::uint64_t kJobSteps = 6, kJobSeeds = 12;
constexpr int kAttacksPerTurn = 40;

JobConfig ConfigOfJob() {
  EditableJobConfig config;
  config.job.mode = Mode::kSync;
  config.job.steps = kJobSteps;
  config.job.slots = config.job.global_batch = kTwoSlots;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.5;
  config.cluster.servers = kTwoShards;
  config.cluster.workers = config.cluster.min_workers = 1;
  return config;
}

std::vector<TensorSpec> TensorsOfJob() {
  return {{"a", {4}, {InitKind::kZeros, 0.0F}, true}, {"b", {4}, {InitKind::kZeros, 0.0F}, true}};
}

class WholeJob {
 public:
  WholeJob() {
    CoordinatorOptions options;
    options.config = config_;
    options.job_file = PrintJobConfig(config_);
    options.job = JobId{1, 2};
    options.block_elements = 4;
    options.draw_secret = [this] { return secrets_.Next64(); };
    coordinator = std::make_unique<Coordinator>(std::move(options), &log_, coordinator_metrics_, now_);
    for (ShardIndex i = 0; i < kTwoShards; ++i) shards[i] = std::make_unique<Shard>(OptionsOf(i), shard_metrics_);
  }

  static PeerId PeerOf(ShardIndex shard) { return PeerId{100 + shard}; }

  // Delivers one message, and all messages that follow from it.
  void Deliver(PeerId from, PeerId to, Message message) {
    queue_.push_back({from, to, std::move(message)});
    TakeAll();
  }
  // Lets a tenth of a second pass: coordinator and shards repeat unanswered messages, and the worker pushes all its
  // slots of the step.
  void Turn() {
    now_ += std::chrono::milliseconds(100);
    Outbox out;
    coordinator->Tick(now_, &out);
    Deliver(kCoordinatorPeer, &out);
    for (ShardIndex i = 0; i < kTwoShards; ++i) {
      shards[i]->Tick(now_, &out);
      Deliver(PeerOf(i), &out);
    }
    Work();
  }
  bool Finished() const { return coordinator->state() == Coordinator::State::kFinished; }
  float WeightOf(ShardIndex shard) const {
    return *reinterpret_cast<const float*>(shards[shard]->store().Weights(0).data);
  }

  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Shard> shards[kTwoShards];
  View view;  // the worker's newest

 private:
  struct Letter {
    PeerId from, to;
    Message message;
  };

  ShardOptions OptionsOf(ShardIndex shard) const {
    ShardOptions options;
    options.shard = shard;
    options.shard_count = kTwoShards;
    options.incarnation = Incarnation{50 + shard};
    options.endpoint = "shard-" + std::to_string(shard);
    options.coordinator = kCoordinatorPeer;
    options.job = JobSettingsOf(config_);
    options.block_elements = 4;
    options.connect = [](const std::string&) { return PeerId{}; };
    return options;
  }
  void Deliver(PeerId from, Outbox* out) {
    for (Envelope& envelope : out->envelopes) queue_.push_back({from, envelope.to, std::move(envelope.message)});
    out->Clear();
    TakeAll();
  }
  void TakeAll() {
    while (!queue_.empty()) {
      const Letter letter = std::move(queue_.front());
      queue_.pop_front();
      Take(letter);
    }
  }
  void Take(const Letter& letter) {
    Outbox out;
    if (letter.to == kCoordinatorPeer) {
      coordinator->Handle(letter.from, Principal{}, letter.message, now_, &out);
    } else if (letter.to == kWorkerPeer) {
      const auto* received = letter.message.header.As<View>();
      if (received != nullptr && letter.from == kCoordinatorPeer) view = *received;
    } else if (letter.to == PeerOf(0) || letter.to == PeerOf(1)) {
      TakeAsShard(letter, static_cast<ShardIndex>(letter.to.value - PeerOf(0).value), &out);
    }
    for (Envelope& envelope : out.envelopes) queue_.push_back({letter.to, envelope.to, std::move(envelope.message)});
  }
  void TakeAsShard(const Letter& letter, ShardIndex index, Outbox* out) {
    Shard& shard = *shards[index];
    shard.Handle(letter.from, letter.message, now_, out);
    for (std::vector<DiskWork> work = shard.TakeDiskWork(); !work.empty(); work = shard.TakeDiskWork()) {
      for (DiskWork& piece : work) shard.Handle(Execute(std::move(piece), &disks_[index]), now_, out);
    }
    shard.Flush(now_, out);
  }

  void Send(PeerId to, Header header, Slice payload = {}) {
    Deliver(kWorkerPeer, to, {std::move(header), std::move(payload)});
  }
  // Acts as the worker: joins if it has no session yet; otherwise pushes gradients of 1 for all its slots. Each call
  // pushes them again, even if the step is not over.
  void Work() {
    if (view.session.value == 0) {
      return Send(kCoordinatorPeer, Join{{}, "sound", kNonce, "class", 3, 4, TensorsOfJob(), 0, 0, {}, {}});
    }
    Heartbeat beat;
    beat.session = view.session;
    beat.nonce = kNonce;
    Send(kCoordinatorPeer, beat);
    if (view.phase != JobPhase::kRunning || view.shards.size() != kTwoShards) return;
    const View of = view;  // another view may come meanwhile
    for (SlotIndex slot : of.slots) Compute(of, slot);
  }
  void Compute(const View& of, SlotIndex slot) {
    for (ShardIndex shard = 0; shard < kTwoShards; ++shard) {
      BufferRef buffer = pool_.Take();
      for (int i = 0; i < 4; ++i) buffer.As<float>()[i] = 1.0F;
      const std::byte* data = buffer->data();
      const Slice payload{std::move(buffer), data, 16};
      Push push;
      push.generation = of.generation;
      push.incarnation = of.shards[shard].incarnation;
      push.session = of.session;
      push.step = of.step;
      push.node = {slot, slot + 1};
      push.block = shard;  // blocks of one size go to the shards in turn
      push.samples = 1;
      push.payload_hash = Hash64(payload.bytes());
      push.loss_scale = 1.0F;
      Send(PeerOf(shard), push, payload);
    }
    SlotReport report;
    report.slot = slot;
    report.samples = 1;
    const ShardIndex home = slot % kTwoShards;
    Send(PeerOf(home), EndSlot{of.generation, of.shards[home].incarnation, of.session, of.step, report, {}});
  }

  static constexpr std::uint64_t kNonce = 0x5DEECE66D1234567;  // cannot be guessed
  const JobConfig config_ = ConfigOfJob();
  MemoryCoordinatorLog log_;
  MemorySnapshotStore disks_[kTwoShards];
  const std::shared_ptr<monitoring::CoordinatorMetrics> coordinator_metrics_ =
      std::make_shared<monitoring::CoordinatorMetrics>();
  const std::shared_ptr<monitoring::ShardMetrics> shard_metrics_ = std::make_shared<monitoring::ShardMetrics>();
  RandomStream secrets_{3};
  BufferPool pool_{64};
  std::deque<Letter> queue_;
  Instant now_ = std::chrono::seconds(1000);
};

// Sends anything except what only a correct member may send: a Hello with an incarnation above shard 0's, and a Join
// with the worker's name. It knows all numbers of the job but the sessions of others.
class Attacker {
 public:
  explicit Attacker(std::uint64_t seed) : hostile_(seed, {1, {50, 51, 60}, {0, 1, 2}, {0, 16, 16}, {1, 2}}) {}

  void Attack(WholeJob* job) {
    for (int i = 0; i < kAttacksPerTurn; ++i) {
      const PeerId from = hostile_.Chance(50) ? kStrangerPeer : kMemberPeer;
      const std::uint64_t whom = hostile_.random().Below(3);
      Message message = Make(*job);
      if (IsAMembersRight(message.header)) continue;
      job->Deliver(from, whom == 2 ? kCoordinatorPeer : WholeJob::PeerOf(static_cast<ShardIndex>(whom)),
                   std::move(message));
    }
  }

 private:
  Message Make(const WholeJob& job) {
    Join join{{}, "hostile", 1 + hostile_.random().Below(3), "class", 3, 4, TensorsOfJob(), 0, 0, {}, {}};
    Push push;
    push.generation = job.coordinator->generation();
    push.incarnation = Incarnation{50};
    push.step = job.coordinator->step();
    push.node = {0, 1};
    push.samples = 1;
    push.loss_scale = 1.0F;
    EndSlot end{push.generation, push.incarnation, {}, push.step, {}, {}};
    end.report.samples = 7;
    switch (hostile_.random().Below(8)) {
      case 0: return hostile_.Chance(20) ? hostile_.WithPayload(join) : hostile_.Spoil(join);
      case 1: return hostile_.Spoil(push);
      case 2: return hostile_.Spoil(Fetch{{Generation{1}, Version{0}}, 0, 0});
      case 3: return hostile_.Chance(50) ? hostile_.WithPayload(push) : hostile_.Spoil(end);
      case 4: return hostile_.Spoil(Pull{Generation{1}, Incarnation{50}, {}, {}, {0, 1}, 0, Encoding::kFp32, {}, true});
      default: return hostile_.Make();
    }
  }
  static bool IsAMembersRight(const Header& header) {
    if (const auto* hello = header.As<Hello>()) return hello->incarnation.value > 50;
    const auto* join = header.As<Join>();
    return join != nullptr && join->worker == "sound";
  }

  HostileMessages hostile_;
};

TEST_CASE("a job comes to its end with its weights, whatever strangers and a hostile worker have said meanwhile",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + kJobSeeds; ++seed) {
    INFO("seed " << seed);
    WholeJob job;
    for (int turn = 0; turn < 20 && job.coordinator->state() != Coordinator::State::kRunning; ++turn) job.Turn();
    REQUIRE(job.coordinator->state() == Coordinator::State::kRunning);
    Attacker attacker(seed);
    for (int turn = 0; turn < 8; ++turn) {
      attacker.Attack(&job);
      if (turn % 4 == 3) job.Turn();  // some steps are done meanwhile
    }
    REQUIRE(job.coordinator->generation() == Generation{1});
    for (int turn = 0; turn < 300 && !job.Finished(); ++turn) job.Turn();  // a hostile member's lease ends meanwhile
    REQUIRE(job.Finished());
    REQUIRE(job.coordinator->TakeRecords().size() == kJobSteps);
    for (ShardIndex shard = 0; shard < kTwoShards; ++shard) {
      REQUIRE(job.shards[shard]->version() == Version{kJobSteps});
      REQUIRE(job.WeightOf(shard) == -0.5F * kJobSteps);
    }
  }
}

}  // namespace
}  // namespace capstan::server
