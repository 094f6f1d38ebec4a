// ShardHarness: one shard, and methods that act as the coordinator and the workers.
//
// Kind:   a value of one test.
// Why:    weights start at zero, and by default the optimizer is gradient descent with rate 1. So after the first step
//         each weight is minus the mean gradient, and a test can state its value.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job/mode.h"
#include "common/config/job/optimizer_kind.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/live_sessions.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/staged.h"
#include "server/shard/shard.h"
#include "server/storage/memory_push_log.h"
#include "server/storage/memory_snapshot_store.h"

namespace capstan {
struct Commit;
}  // namespace capstan

namespace capstan::server {

struct ShardHarnessOptions {
  Mode mode = Mode::kSync;
  Aggregation aggregation = Aggregation::kMean;  // of mode sync
  ShardIndex shard = 0;
  std::uint32_t shard_count = 1;
  SlotIndex slots = 3;
  std::uint32_t window_blocks = 16;
  std::vector<std::int64_t> tensors = {4, 4, 2};  // each is one block,
  std::uint32_t block_elements = 4;               // if small tensors do not share one
  std::uint32_t groups = 0;                       // tensor i is in group i mod groups + 1
  OptimizerKind optimizer = OptimizerKind::kSgd;
  int states = 0;  // of kExternal
  Encoding encoding = Encoding::kFp32;
  std::vector<std::size_t> statistics = {};    // tensors that are statistics
  const MemorySnapshotStore* found = nullptr;  // contents of its directory
  SnapshotId newest_retained = {};             // as the directory says
  Acknowledge acknowledge = Acknowledge::kReceived;
  MemoryPushLog* log = nullptr;  // outlives the shard; null: its own log
  std::size_t log_records_max = 100;
  bool snapshots = false;  // whether the job writes some at intervals
};

class ShardHarness {
 public:
  static constexpr PeerId kCoordinator{1}, kWorker{2}, kOther{3};

  explicit ShardHarness(ShardHarnessOptions options = {}) : options_(std::move(options)) {
    ShardOptions core;
    core.shard = options_.shard;
    core.shard_count = options_.shard_count;
    core.incarnation = Incarnation{7};
    core.endpoint = "here";
    core.metrics = "here:9100";
    core.coordinator = kCoordinator;
    core.job.mode = options_.mode;
    core.job.aggregation = HasGlobalSteps(options_.mode) ? options_.aggregation : Aggregation::kNone;
    core.job.acknowledge = options_.acknowledge;
    core.log_records_max = options_.log_records_max;
    core.job.optimizer = {.kind = options_.optimizer, .momentum = 0.5, .states = options_.states};
    core.job.encoding = options_.encoding;
    core.job.snapshots = options_.snapshots;
    core.window_blocks = options_.window_blocks;
    core.block_elements = options_.block_elements;
    core.job.config_hash = 11;
    core.connect = [](const std::string& endpoint) {
      return endpoint.empty() ? PeerId{}
                              : PeerOf(static_cast<ShardIndex>(endpoint.back()) % 16);  // '0' is a multiple of 16
    };
    core.room = [this](PeerId peer) {
      const auto found = room.find(peer);
      return found == room.end() ? UINT64_MAX : found->second;
    };
    if (options_.found != nullptr) disk.AddPartsOf(*options_.found);
    core.parts = disk.List();
    core.identity.newest_retained = options_.newest_retained;
    shard = std::make_unique<Shard>(std::move(core), metrics);
  }

  // Shard i is at the endpoint "shard-i".
  static PeerId PeerOf(ShardIndex shard) { return {10 + shard}; }
  static std::string EndpointOf(ShardIndex shard) { return "shard-" + std::to_string(shard); }

  // ---- incoming messages; the shard's answers, acknowledgements too, are collected
  // After the first Reset the coordinator also names the session that workers have here.
  void FromCoordinator(Header header) {
    const bool begins = header.Is<Reset>() && std::exchange(names_session_, false);
    Handle(kCoordinator, std::move(header), {});
    if (begins) Tell({MakeSession(1)});
  }
  void FromWorker(Header header, Slice payload = {}, PeerId from = kWorker) {
    Handle(from, std::move(header), std::move(payload));
  }
  void Tick(Instant later = {}) {
    now += later;
    shard->Tick(now, &out_);
    WorkDisk();
    WorkLog();
  }
  // Removes and returns the messages of type T to one peer that were not taken yet.
  template <class T>
  std::vector<T> Take(PeerId to = kWorker) {
    std::vector<T> taken;
    std::erase_if(out_.envelopes, [&](const Envelope& envelope) {
      const T* body = envelope.message.header.As<T>();
      if (envelope.to != to || body == nullptr) return false;
      taken.push_back(*body);
      payloads.push_back(envelope.message.payload);
      return true;
    });
    return taken;
  }
  // Removes and returns all messages to one peer that were not taken yet.
  std::vector<Envelope> TakeAll(PeerId to) {
    std::vector<Envelope> taken;
    std::erase_if(out_.envelopes, [&](Envelope& envelope) {
      if (envelope.to != to) return false;
      taken.push_back(std::move(envelope));
      return true;
    });
    return taken;
  }
  // Whether the only answer is an Error with this code.
  bool Refused(Code code, PeerId to = kWorker) {
    const std::vector<Error> errors = Take<Error>(to);
    const bool alone = out_.envelopes.empty();
    out_.Clear();
    return alone && errors.size() == 1 && errors[0].code == code;
  }
  bool Silent() const { return out_.envelopes.empty(); }
  void Forget() { out_.Clear(); }
  const std::vector<Notice>& notices() const { return out_.notices; }
  const Outbox& out() const { return out_; }

  // ---- sessions
  // Makes a session that may push all slots.
  LiveSession MakeSession(std::uint64_t id, const std::string& worker = "w") const {
    return {SessionId{id}, worker, {{0, options_.slots}}, true};
  }
  // Sends the shard a whole list of sessions, newer than all lists before it.
  void Tell(std::vector<LiveSession> sessions) {
    const Term term = std::max(shard->term(), Term{1});
    Handle(kCoordinator, LiveSessions{term, shard->sessions().sequence(term) + 1, 0, std::move(sessions), {}}, {});
  }

  // ---- the coordinator
  Reset MakeReset(std::uint64_t to_generation = 1) const {
    Reset reset;
    reset.term = Term{1};
    reset.generation = Generation{to_generation};
    reset.timeline = TimelineFrom(reset.generation);
    reset.incarnation = Incarnation{7};
    reset.job = JobId{1, 2};
    reset.parameters.learning_rate = 1.0F;
    reset.slot_count = options_.slots;
    reset.fetch_key = 5;
    for (std::size_t i = 0; i < options_.tensors.size(); ++i) {
      const std::uint32_t group = options_.groups == 0 ? 0 : static_cast<std::uint32_t>(i) % options_.groups + 1;
      reset.catalog.push_back({"t" + std::to_string(i), {options_.tensors[i]}, {InitKind::kZeros, 0.0F}, true, group});
      const auto& statistics = options_.statistics;
      if (std::find(statistics.begin(), statistics.end(), i) != statistics.end()) {
        reset.catalog.back().kind = TensorKind::kStatistic;
      }
    }
    return reset;
  }
  // Makes a Reset to a snapshot with these parts. Each part comes with the endpoint of a shard that has it.
  Reset MakeResetTo(std::uint64_t to_generation, const std::vector<SnapshotPart>& parts) const {
    Reset reset = MakeReset(to_generation);
    reset.snapshot = parts.front().id;
    reset.parameters.updates = reset.snapshot.version.value;
    for (const SnapshotPart& part : parts) reset.sources.push_back({part.digest, EndpointOf(part.part)});
    return reset;
  }
  ShardHarness& Start() {
    FromCoordinator(MakeReset());
    out_.Clear();
    return *this;
  }
  Commit MakeCommit(std::uint64_t step, std::uint32_t attempt = 0, StepAction action = StepAction::kApply) const;
  Redo MakeRedo(std::uint64_t step, std::uint32_t attempt, float clip, std::vector<float> trust_ratios = {}) const {
    return {Term{1}, generation, Step{step}, attempt, clip, std::move(trust_ratios)};
  }
  void Commits(std::uint64_t step, std::uint32_t attempt = 0, StepAction action = StepAction::kApply);
  Commit MakeSnapshotCommit(std::uint64_t step) const;
  Pin MakePin(std::uint64_t version) const { return {Term{1}, generation, Version{version}}; }
  RetainedSnapshots MakeRetained(std::vector<SnapshotId> retained, SnapshotId settled) const {
    return {Term{1}, generation, std::move(retained), settled};
  }

  // ---- workers
  Slice Values(std::size_t count, float value) {
    if (count == 0) return {};
    BufferRef buffer = pool_.Take();
    for (std::size_t i = 0; i < count; ++i) buffer.As<float>()[i] = value;
    const std::byte* data = buffer->data();
    return {std::move(buffer), data, count * sizeof(float)};
  }
  Push MakePush(std::uint64_t step, BlockIndex block, Node node, std::uint64_t samples, const Slice& payload) const {
    return {generation,
            Incarnation{7},
            session,
            Step{step},
            node,
            block,
            samples,
            samples == 0 ? 0 : Hash64(payload.bytes()),
            Encoding::kFp32,
            hyper,
            1.0F};
  }
  void Stage(std::uint64_t step, BlockIndex block, Node node, std::uint64_t samples, float value,
             PeerId from = kWorker) {
    Slice payload = samples == 0 ? Slice{} : Values(SizeOf(block), value);
    const Push push = MakePush(step, block, node, samples, payload);
    FromWorker(push, std::move(payload), from);
  }
  // The same, where the payload is lent: its memory is used again at once. `changes`: before it is read, too. Returns
  // whether the shard takes it so.
  bool Lend(std::uint64_t step, BlockIndex block, Node node, std::uint64_t samples, float value, bool changes = false) {
    const Slice payload = Values(SizeOf(block), value);
    const Push push = MakePush(step, block, node, samples, payload);
    if (!TakesLent(*shard, push)) return false;
    auto* const values = payload.owner.As<float>();
    if (changes) values[SizeOf(block) - 1] += 1.0F;
    FromWorker(push, {{}, payload.data, payload.size});
    std::fill_n(values, SizeOf(block), 1e9F);
    return true;
  }
  EndSlot MakeEnd(std::uint64_t step, SlotIndex slot, std::uint64_t samples = 1) const {
    SlotReport report;
    report.slot = slot;
    report.samples = samples;
    return {generation, Incarnation{7}, session, Step{step}, report, {}};
  }
  Pull MakePull(std::uint64_t version, std::vector<BlockIndex> blocks) const {
    return {generation, Incarnation{7}, session, Version{version}, std::move(blocks), 0, Encoding::kFp32, {}, false};
  }
  // Pushes all blocks of all slots of a step, with gradients of one value and `samples` samples, and ends the slots.
  void CompleteStep(std::uint64_t step, float value, std::uint64_t samples = 1) {
    for (BlockIndex block = 0; block < options_.tensors.size(); ++block) {
      for (SlotIndex slot = 0; slot < options_.slots; ++slot) Stage(step, block, {slot, slot + 1}, samples, value);
    }
    for (SlotIndex slot = 0; slot < options_.slots; ++slot) FromWorker(MakeEnd(step, slot, samples));
  }
  // Asks the shard what it has of a step. Returns its answer, or an empty Staged if there is not exactly one.
  Staged Coverage(std::uint64_t step) {
    out_.Clear();
    FromWorker(CoverageQuery{generation, Incarnation{7}, session, Step{step}});
    const std::vector<Staged> answers = Take<Staged>();
    return answers.size() == 1 ? answers[0] : Staged{};
  }
  // Returns the first weight of a block. `index`: position among this shard's blocks.
  float WeightOf(std::size_t index) const {
    return *reinterpret_cast<const float*>(shard->store().Weights(index).data);
  }
  std::size_t SizeOf(BlockIndex block) const { return static_cast<std::size_t>(options_.tensors[block]); }

  // Executes the requests that a held disk has not executed.
  void LetDiskGo() {
    holds_disk_ = false;
    WorkDisk();
    shard->Flush(now, &out_);
  }
  void HoldDisk() { holds_disk_ = true; }
  void LetLogGo() {
    holds_log_ = false;
    WorkLog();
  }
  void HoldLog() { holds_log_ = true; }
  // Requests to the log that are not executed yet.
  std::vector<LogWork> waiting_log_work;
  PushLog* log() { return options_.log != nullptr ? options_.log : &own_log_; }

  MemorySnapshotStore disk;
  Generation generation{1};              // for the messages it makes
  SessionId session{1};                  // the same
  std::vector<HyperParameters> hyper;    // for the pushes it makes
  std::map<PeerId, std::uint64_t> room;  // bytes that a peer may be sent; not named: any number
  const std::shared_ptr<monitoring::ShardMetrics> metrics = std::make_shared<monitoring::ShardMetrics>();
  std::unique_ptr<Shard> shard;
  std::vector<Slice> payloads;  // payloads of all messages taken
  Instant now = std::chrono::seconds(100);

 private:
  void Handle(PeerId from, Header header, Slice payload) {
    shard->Handle(from, {std::move(header), std::move(payload)}, now, &out_);
    WorkDisk();
    shard->Flush(now, &out_);
    WorkLog();
  }
  // Lets the log execute its requests at once, unless it is held.
  void WorkLog() {
    while (true) {
      for (LogWork& piece : shard->TakeLogWork()) waiting_log_work.push_back(std::move(piece));
      if (holds_log_ || waiting_log_work.empty()) return;
      for (const LogWork& piece : std::exchange(waiting_log_work, {})) {
        shard->Handle(Execute(piece, log()), now, &out_);
      }
      shard->Flush(now, &out_);
    }
  }
  // Lets the disk execute its requests at once and in order, unless it is held.
  void WorkDisk() {
    while (!holds_disk_) {
      if (work_.empty()) work_ = shard->TakeDiskWork();
      if (work_.empty()) return;
      for (DiskWork& piece : std::exchange(work_, {})) {
        shard->Handle(Execute(std::move(piece), &disk), now, &out_);
      }
    }
    for (DiskWork& piece : shard->TakeDiskWork()) work_.push_back(std::move(piece));
  }

  const ShardHarnessOptions options_;
  BufferPool pool_{64};
  Outbox out_;
  std::vector<DiskWork> work_;
  bool holds_disk_ = false, holds_log_ = false;
  bool names_session_ = true;
  MemoryPushLog own_log_;
};

// Short names for tests of a shard: its peers, and the leaves of slots 0 and 1.
inline constexpr PeerId kCoordinator = ShardHarness::kCoordinator, kWorker = ShardHarness::kWorker,
                        kOther = ShardHarness::kOther;
inline constexpr Node kLeaf0{0, 1}, kLeaf1{1, 2};

}  // namespace capstan::server
