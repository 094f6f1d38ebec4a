// Measures what messages cost a coordinator in a large job. Answers to Hello, views and step reports have the size that
// they have in a real job; only the blocks of weights are small.
#include <memory>

#include "bench/scale_cost.h"
#include "common/base/random.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/coordinator.h"

namespace capstan::bench {

namespace {

constexpr std::uint64_t kSteps = 1'000'000;

// A running coordinator, with methods that play its shards and workers.
class CoordinatorRig {
 public:
  CoordinatorRig(ScaleSize size, Mode mode) : size_(size) {
    config_.job.mode = mode;
    config_.job.steps = kSteps;
    config_.job.slots = config_.job.global_batch = size.workers;
    config_.cluster.servers = size.shards;
    config_.cluster.workers = config_.cluster.min_workers = size.workers;
    config_.snapshot.every_seconds = 0;
    server::CoordinatorOptions options;
    options.config = config_;
    options.job_file = PrintJobConfig(config_);
    options.job = JobId{1, 2};
    options.block_elements = kScaleBlockElements;
    options.draw_secret = [this] { return secrets_.Next64(); };
    coordinator_ = std::make_unique<server::Coordinator>(std::move(options), &log_, metrics_, now_);
    hello_.incarnation = Incarnation{50};
    hello_.config_hash = HashJobConfig(config_);
    hello_.term = coordinator_->term();
    for (ShardIndex shard = 0; shard < size.shards; ++shard) SendHello(shard);
    for (std::uint32_t worker = 0; worker < size.workers; ++worker) Joins(worker, 1);
    for (ShardIndex shard = 0; shard < size.shards; ++shard) {
      Send(ShardPeer(shard), ResetDone{shard, hello_.incarnation, coordinator_->generation()});
    }
    CAPSTAN_CHECK(coordinator_->state() == server::CoordinatorState::kRunning);
    out_.Clear();
    for (std::uint32_t worker = 0; worker < size.workers; ++worker) Beats(worker);
    EncodeAndForget(&out_);
  }

  void SendHello(ShardIndex shard) {
    hello_.shard = shard;
    hello_.endpoint = "tcp://10.0." + std::to_string(shard / 256) + "." + std::to_string(shard % 256) + ":29601";
    Send(ShardPeer(shard), hello_);
    out_.Clear();
  }
  void Beats(std::uint32_t worker) {
    Heartbeat beat;
    beat.session = sessions_[worker];
    beat.nonce = 1;
    beat.generation = coordinator_->generation();
    beat.step = coordinator_->step();
    beat.computing = true;
    beat.view_sequence = 1;
    Send(WorkerPeer(worker), beat);
    EncodeAndForget(&out_);
  }
  // Makes one worker leave and join again.
  void Rejoins(std::uint32_t worker) {
    Send(WorkerPeer(worker), Leave{sessions_[worker], 1, "bench"});
    EncodeAndForget(&out_);
    Joins(worker, 1);
    EncodeAndForget(&out_);
  }
  void Step() {
    const capstan::Step step = coordinator_->step();
    for (ShardIndex shard = 0; shard < size_.shards; ++shard) Send(ShardPeer(shard), MakePrepared(shard, step));
    EncodeAndForget(&out_);
    CAPSTAN_CHECK(coordinator_->step() == step.Next());
    for (ShardIndex shard = 0; shard < size_.shards; ++shard) {
      Send(ShardPeer(shard), Committed{shard, hello_.incarnation, coordinator_->generation(), step});
    }
    (void)coordinator_->TakeRecords();
  }
  // Makes the shard report that all slots have done `clock` pushes. The message also has the reports of the slots that
  // report through this shard.
  void Progresses(ShardIndex shard, std::uint64_t clock) {
    Progress progress{shard, hello_.incarnation, coordinator_->generation(), {}, {}};
    progress.clocks.assign(size_.workers, {clock});
    for (SlotIndex slot = shard; slot < size_.workers; slot += size_.shards) {
      progress.reports.push_back({capstan::SequenceNumber{clock}, ReportOf(slot)});
    }
    Send(ShardPeer(shard), std::move(progress));
    EncodeAndForget(&out_);
    (void)coordinator_->TakeRecords();
  }
  void Tick() {
    now_ += std::chrono::milliseconds(100);
    coordinator_->Tick(now_, &out_);
    EncodeAndForget(&out_);
  }

 private:
  static PeerId ShardPeer(ShardIndex shard) { return {100'000 + shard}; }
  static PeerId WorkerPeer(std::uint32_t worker) { return {1'000 + worker}; }
  static SlotReport ReportOf(SlotIndex slot) {
    SlotReport report;
    report.slot = slot;
    report.samples = report.predictions = 1;
    report.loss_sum = 2.0;
    return report;
  }
  void Send(PeerId from, Header header) {
    coordinator_->Handle(from, Principal{}, {std::move(header), {}}, now_, &out_);
  }
  void Joins(std::uint32_t worker, std::uint64_t nonce) {
    const std::size_t before = out_.envelopes.size();
    Send(WorkerPeer(worker),
         Join{{}, "worker-" + std::to_string(worker), nonce, "class", 3, 4, tensors_, 0, 0, {}, {}});
    sessions_.resize(size_.workers);
    for (std::size_t i = before; i < out_.envelopes.size(); ++i) {
      if (out_.envelopes[i].to != WorkerPeer(worker)) continue;
      if (const auto* view = out_.envelopes[i].message.header.As<View>()) sessions_[worker] = view->session;
    }
    if (coordinator_->state() != server::CoordinatorState::kRunning) out_.Clear();
  }
  Prepared MakePrepared(ShardIndex shard, capstan::Step step) const {
    Prepared prepared{shard, hello_.incarnation, coordinator_->generation(), step, 0, {}};
    prepared.report.segment_squares.assign(kScaleBlocksPerShard, 1e-6);
    prepared.report.block_samples.assign(kScaleBlocksPerShard, size_.workers);
    for (SlotIndex slot = shard; slot < size_.workers; slot += size_.shards) {
      prepared.report.slots.push_back(ReportOf(slot));
    }
    return prepared;
  }

  const ScaleSize size_;
  const std::vector<TensorSpec> tensors_ = ScaleTensors(std::size_t{size_.shards} * kScaleBlocksPerShard);
  EditableJobConfig config_;
  server::MemoryCoordinatorLog log_;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics_ = std::make_shared<monitoring::CoordinatorMetrics>();
  std::unique_ptr<server::Coordinator> coordinator_;
  Hello hello_;
  RandomStream secrets_{1};
  std::vector<SessionId> sessions_;
  Instant now_ = std::chrono::seconds(1000);
  Outbox out_;
};

}  // namespace

std::vector<ScaleCost> CoordinatorCosts() {
  return {
      {"coordinator/beat", GrowsBy::kShards, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kSync);
         return timer.Each(kManyTimes, [&](std::size_t i) { rig.Beats(static_cast<std::uint32_t>(i % size.workers)); });
       }},
      {"coordinator/leave-and-join", GrowsBy::kWorkers, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kSync);
         return timer.Each(kManyTimes,
                           [&](std::size_t i) { rig.Rejoins(static_cast<std::uint32_t>(i % size.workers)); });
       }},
      {"coordinator/step", GrowsBy::kShards, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kSync);
         return timer.Each(kManyTimes, [&](std::size_t) { rig.Step(); });
       }},
      // A Progress message carries one number for each slot, so its cost grows with the number of workers.
      {"coordinator/progress", GrowsBy::kWorkers, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kAsync);
         return timer.Each(kManyTimes, [&](std::size_t i) {
           rig.Progresses(static_cast<ShardIndex>(i % size.shards), i / size.shards + 1);
         });
       }},
      {"coordinator/hello", GrowsBy::kShards, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kSync);
         return timer.Each(kManyTimes, [&](std::size_t i) { rig.SendHello(static_cast<ShardIndex>(i % size.shards)); });
       }},
      {"coordinator/tick", GrowsBy::kWorkers, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         CoordinatorRig rig(size, Mode::kSync);
         return timer.Each(20, [&](std::size_t) { rig.Tick(); });
       }},
  };
}

}  // namespace capstan::bench
