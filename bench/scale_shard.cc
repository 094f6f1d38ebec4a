// Measures what messages cost a shard in a large job. The shard's number of blocks stays the same; the number of
// workers that push to the shard and pull from it grows.
#include <memory>

#include "bench/scale_cost.h"
#include "common/base/hash.h"
#include "common/config/job/mode.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "server/shard/shard.h"
#include "server/storage/memory_snapshot_store.h"

namespace capstan::bench {

namespace {

constexpr PeerId kOrders{1};
constexpr Incarnation kIncarnation{7};
constexpr Generation kGeneration{1};
constexpr std::size_t kSpeculativeBlocks = 16;  // blocks that a pull asks for speculatively, as a session's does

// A serving shard, and methods that play the coordinator and the workers. There are as many slots as workers.
class ShardRig {
 public:
  ShardRig(ScaleSize size, Mode mode) : size_(size) {
    server::ShardOptions options;
    options.incarnation = kIncarnation;
    options.coordinator = kOrders;
    options.job = {.mode = mode,
                   .aggregation = HasGlobalSteps(mode) ? Aggregation::kMean : Aggregation::kNone,
                   .staleness = UINT32_MAX,
                   .optimizer = {.kind = OptimizerKind::kSgd}};
    options.window_blocks = kScaleBlocksPerShard;
    options.block_elements = kScaleBlockElements;
    shard_ = std::make_unique<server::Shard>(std::move(options), metrics_);
    Reset reset;
    reset.term = Term{1};
    reset.generation = kGeneration;
    reset.timeline = TimelineFrom(reset.generation);
    reset.incarnation = kIncarnation;
    reset.job = JobId{1, 2};
    reset.parameters.learning_rate = 1.0F;
    reset.slot_count = size.workers;
    reset.catalog = ScaleTensors(kScaleBlocksPerShard);
    Send(kOrders, std::move(reset));
    for (server::DiskWork& work : shard_->TakeDiskWork()) {
      shard_->Handle(server::Execute(std::move(work), &disk_), now_, &out_);
    }
    CAPSTAN_CHECK(shard_->serving());
    LiveSessions list{Term{1}, 1, 0, {}, {}};
    for (std::uint32_t worker = 0; worker < size.workers; ++worker) {
      list.sessions.push_back(
          {SessionId{worker + 1}, "worker-" + std::to_string(worker), {{worker, worker + 1}}, false});
    }
    list.sessions[0].slots = {{0, size.workers}};  // Pushes sends sums of all slots as the first worker
    Send(kOrders, std::move(list));
    out_.Clear();
  }

  void Pulls(std::uint32_t worker, std::uint64_t version) {
    Pull pull{kGeneration, kIncarnation, SessionId{worker + 1}, Version{version}, {}, 0, Encoding::kFp32, {}, true};
    for (BlockIndex block = 0; block < kSpeculativeBlocks; ++block) pull.speculative.push_back(block);
    pull.blocks = {0, 1};
    Send(WorkerPeer(worker), std::move(pull));
    EncodeAndForget(&out_);
  }
  void Pushes(std::uint32_t worker, std::uint64_t step, BlockIndex block, Node node) {
    Push push{kGeneration, kIncarnation, SessionId{worker + 1}, Step{step}, node, block,
              1,           hash_,        Encoding::kFp32,       {},         1.0F};
    shard_->Handle(WorkerPeer(worker), {std::move(push), payload_}, now_, &out_);
    shard_->Flush(now_, &out_);
    EncodeAndForget(&out_);
  }
  void Ends(std::uint64_t step, SlotIndex slot) {
    SlotReport report;
    report.slot = slot;
    report.samples = 1;
    Send(WorkerPeer(slot), EndSlot{kGeneration, kIncarnation, SessionId{slot + 1}, Step{step}, report, {}});
    shard_->Flush(now_, &out_);
    out_.Clear();
  }
  void Tick() {
    now_ += std::chrono::milliseconds(100);
    shard_->Tick(now_, &out_);
    EncodeAndForget(&out_);
  }
  Node All() const { return {0, size_.workers}; }

 private:
  static PeerId WorkerPeer(std::uint32_t worker) { return {1'000 + worker}; }
  void Send(PeerId from, Header header) { shard_->Handle(from, {std::move(header), {}}, now_, &out_); }
  Slice MakePayload() {
    BufferRef buffer = pool_.Take();
    for (std::size_t i = 0; i < kScaleBlockElements; ++i) buffer.As<float>()[i] = 0.5F;
    const std::byte* data = buffer->data();
    return {std::move(buffer), data, kScaleBlockElements * sizeof(float)};
  }

  const ScaleSize size_;
  BufferPool pool_{64};
  const Slice payload_ = MakePayload();
  const std::uint64_t hash_ = Hash64(payload_.bytes());
  server::MemorySnapshotStore disk_;
  const std::shared_ptr<monitoring::ShardMetrics> metrics_ = std::make_shared<monitoring::ShardMetrics>();
  std::unique_ptr<server::Shard> shard_;
  Instant now_ = std::chrono::seconds(100);
  Outbox out_;
};

// Returns the block of the i-th push: blocks are pushed from the last to the first.
BlockIndex NthPushed(std::size_t i) {
  return static_cast<BlockIndex>(kScaleBlocksPerShard - 1 - i % kScaleBlocksPerShard);
}

}  // namespace

std::vector<ScaleCost> ShardCosts() {
  return {
      {"shard/pull-parked", GrowsBy::kWorkers, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kSync);
         for (std::uint32_t worker = 0; worker < size.workers; ++worker) rig.Pulls(worker, 1);
         return timer.Each(kManyTimes,
                           [&](std::size_t i) { rig.Pulls(static_cast<std::uint32_t>(i % size.workers), 1); });
       }},
      // All workers' pulls wait. While the step is prepared, each gets two blocks speculatively, so the cost grows with
      // the number of workers.
      {"shard/prepare-step", GrowsBy::kWorkers, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kSync);
         for (std::uint32_t worker = 0; worker < size.workers; ++worker) rig.Pulls(worker, 1);
         return timer.Each(1, [&](std::size_t) {
           for (std::size_t i = 0; i < kScaleBlocksPerShard; ++i) rig.Pushes(0, 0, NthPushed(i), rig.All());
         });
       }},
      {"shard/push-sync", GrowsBy::kWorkers, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kSync);
         return timer.Each(std::size_t{size.workers} * kScaleBlocksPerShard, [&](std::size_t i) {
           const auto slot = static_cast<SlotIndex>(i % size.workers);
           rig.Pushes(slot, 0, NthPushed(i / size.workers), {slot, slot + 1});
         });
       }},
      {"shard/push-async", GrowsBy::kWorkers, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kAsync);
         const std::size_t round = std::size_t{size.workers} * kScaleBlocksPerShard;
         return timer.Each(kManyTimes, [&](std::size_t i) {
           const auto slot = static_cast<SlotIndex>(i % size.workers);
           rig.Pushes(slot, i / round + 1, NthPushed(i % round / size.workers), {slot, slot + 1});
         });
       }},
      {"shard/pull-bounded", GrowsBy::kWorkers, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kBounded);
         return timer.Each(kManyTimes,
                           [&](std::size_t i) { rig.Pulls(static_cast<std::uint32_t>(i % size.workers), 1); });
       }},
      {"shard/end-slot-async", GrowsBy::kWorkers, 0,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kAsync);
         return timer.Each(size.workers, [&](std::size_t i) { rig.Ends(1, static_cast<SlotIndex>(i)); });
       }},
      // Each Tick sends a Progress message, which reports one new push.
      {"shard/progress", GrowsBy::kWorkers, 1,
       [](ScaleSize size, const ScaleTimer& timer) {
         ShardRig rig(size, Mode::kAsync);
         return timer.Each(size.workers, [&](std::size_t i) {
           const auto slot = static_cast<SlotIndex>(i);
           rig.Pushes(slot, 1, 0, {slot, slot + 1});
           rig.Tick();
         });
       }},
  };
}

}  // namespace capstan::bench
