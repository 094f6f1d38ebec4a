#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <queue>
#include <set>

#include "common/random.h"
#include "server/admission.h"
#include "server/coordinator.h"
#include "server/optimizer.h"
#include "server/shard.h"
#include "tests/sim/addresses.h"
#include "tests/sim/checks.h"
#include "tests/sim/disk.h"
#include "tests/sim/log.h"
#include "tests/sim/markers.h"
#include "tests/sim/model.h"
#include "tests/sim/worker.h"

namespace capstan::sim {

namespace {

using server::Coordinator;
using server::Shard;

constexpr Instant kMillisecond = std::chrono::milliseconds(1);
constexpr double kTickSeconds = 0.025;

struct Delivery {
  Instant at{};
  std::uint64_t order = 0;
  std::uint64_t from = 0, to = 0;
  Message message;
  bool zombie = false;  // from a coordinator that was replaced
  bool operator>(const Delivery& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
};

struct SimCoordinator {
  std::unique_ptr<Coordinator> core;
  std::shared_ptr<monitoring::CoordinatorMetrics> metrics;
  Instant paused_until{};
  Instant ahead{};  // of its clock
};

struct SimShard {
  std::unique_ptr<Shard> core;
  std::shared_ptr<monitoring::ShardMetrics> metrics;
  Incarnation life;
  std::deque<std::pair<Instant, server::DiskWork>> disk_work;  // done at that time
  Instant paused_until{};
  Instant ahead{};
};

class Cluster {
 public:
  Cluster(const ClusterOptions& options, const Mutant* mutant)
      : options_(options),
        mutant_(mutant),
        flaw_(mutant != nullptr ? mutant->flaw : Flaw::kNone),
        random_(options.seed, 1),
        config_(MakeConfig(options)),
        tensors_(MakeCatalog(options)),
        records_(flaw_) {
    catalog_ = std::make_unique<Catalog>(std::move(Catalog::Create(tensors_, options.block_elements)).value());
    checks_ = std::make_unique<Checks>(options_, &outcome_);
    markers_ = std::make_unique<Markers>(options_, &outcome_);
    disks_.resize(std::max(kShardsMax, options.shards));
    for (SimDisk& disk : disks_) {
      disk.set_flaw(flaw_);
      disk.set_kills_when_full(options_.full_disks_kill);
    }
    StartCoordinator();
    shards_.resize(options.shards);
    for (std::uint32_t i = 0; i < options.shards; ++i) StartShard(i);
    for (std::uint32_t i = 0; i < options.workers; ++i) StartWorker("w" + std::to_string(i));
  }

  Outcome Run() {
    while (outcome_.violation.empty() && now_ < options_.give_up_after) {
      const Instant next_tick = last_tick_ + 25 * kMillisecond;
      if (!queue_.empty() && queue_.top().at <= next_tick) {
        Deliver();
      } else {
        now_ = last_tick_ = next_tick;
        TickAll();
      }
      if (Done()) break;
    }
    Finish();
    return std::move(outcome_);
  }

 private:
  bool Calm() const { return now_ >= options_.calm_after; }
  bool Chance(double probability) { return random_.Unit() < probability; }
  bool Strikes(double rate) { return rate > 0 && Chance(rate * kTickSeconds); }
  Instant Up_to(std::uint64_t milliseconds) {
    return Instant(static_cast<std::int64_t>(random_.Below(milliseconds * 1'000'000)));
  }
  void Count(const std::string& what) { ++outcome_.counts[what]; }
  void Trace(const std::string& line) const {
    if (options_.trace) options_.trace(std::to_string(now_.count() / 1'000'000) + " ms: " + line);
  }

  // ---- processes
  void StartCoordinator() {
    server::CoordinatorOptions options;
    options.config = config_;
    options.slow_after = options_.slow_after;
    options.job_file = PrintJobConfig(config_);
    options.job = JobId{1, options_.seed};
    options.block_elements = options_.block_elements;
    log_ = std::make_shared<FencedLog>(&records_);
    logs_.push_back(log_);
    coordinator_.metrics = std::make_shared<monitoring::CoordinatorMetrics>();
    coordinator_.core = std::make_unique<Coordinator>(std::move(options), log_.get(), coordinator_.metrics, now_);
    coordinator_.paused_until = coordinator_.ahead = {};
    Trace("coordinator starts, term " + std::to_string(coordinator_.core->term().value));
  }

  void StopCoordinator() {
    checks_->Add(*coordinator_.metrics);
    coordinator_.core.reset();
    records_.Crash();
  }

  void StartShard(std::uint32_t index) {
    SimDisk& disk = disks_[index];
    server::ShardLife life = disk.life();
    life.shard = index;
    life.incarnation = life.incarnation.Next();
    if (!disk.Remember(life).ok()) return Count("shards that cannot start on a full disk");
    server::ShardOptions options;
    options.shard = index;
    options.shard_count = static_cast<std::uint32_t>(shards_.size());
    options.incarnation = life.incarnation;
    options.life = life;
    options.parts = disk.List();
    options.endpoint = "shard-" + std::to_string(index);
    options.connect = [](const std::string& endpoint) { return PeerId{kShards + std::stoull(endpoint.substr(6))}; };
    options.coordinator = PeerId{kCoordinator};
    options.mode = options_.mode;
    options.staleness = config_.job.staleness;
    options.seed = 5;
    options.config_hash = HashJobConfig(config_);
    options.optimizer = server::MakeOptimizerRule(config_.optimizer);
    options.window_blocks = options_.window_blocks;
    options.block_elements = options_.block_elements;
    SimShard& shard = shards_[index];
    shard = {};
    shard.life = life.incarnation;
    shard.metrics = std::make_shared<monitoring::ShardMetrics>();
    shard.core = std::make_unique<Shard>(std::move(options), shard.metrics);
    Trace("shard " + std::to_string(index) + " starts, incarnation " + std::to_string(life.incarnation.value));
  }

  // Dies. Of its disk's work the first piece may have been done: nobody heard of it.
  void KillShard(std::size_t index) {
    SimShard& shard = shards_[index];
    Trace("shard " + std::to_string(index) + " dies");
    const bool writing =
        !shard.disk_work.empty() && std::holds_alternative<server::WriteSnapshot>(shard.disk_work.front().second);
    markers_->ShardDies(Look(), index, writing);
    if (!shard.disk_work.empty() && Chance(0.5)) {
      (void)server::CarryOut(std::move(shard.disk_work.front().second), &disks_[index]);
      Count("disk work done, shard dead before it knew");
    }
    checks_->Add(*shard.metrics);
    shard = {};
    disks_[index].Crash();
    Count("shard crashes");
  }

  void StartWorker(const std::string& name) {
    const std::uint64_t node = kWorkers + ++worker_lives_;
    workers_.emplace(
        node, std::make_unique<SimWorker>(SimWorker::Settings{node, name, &options_, &tensors_, catalog_.get(),
                                                              pool_.get(), &random_, PeerId{kCoordinator}, flaw_}));
    markers_->WorkerStarts(Look());
    Trace("worker " + name + " starts as " + std::to_string(node));
  }

  // ---- network
  bool Parted(std::uint64_t from, std::uint64_t to) const {
    return std::any_of(partitions_.begin(), partitions_.end(), [&](const Partition& p) {
      return now_ < p.until && p.from.contains(from) && p.to.contains(to);
    });
  }

  // What can be seen from outside.
  const World& Look() {
    world_.coordinator = coordinator_.core.get();
    world_.shards.resize(shards_.size());
    world_.incarnations.resize(shards_.size());
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      world_.shards[i] = shards_[i].core.get();
      world_.incarnations[i] = shards_[i].life;
    }
    world_.now = now_;
    return world_;
  }

  void Send(std::uint64_t from, Outbox* outbox, bool zombie = false) {
    for (const Notice& notice : outbox->notices) {
      if (notice.severity != Severity::kInfo || options_.trace) Trace(std::to_string(from) + " says: " + notice.text);
    }
    for (Envelope& envelope : outbox->envelopes) {
      ++messages_;
      if (from == kCoordinator) markers_->SentByCoordinator(envelope, zombie);
      if (mutant_ != nullptr && mutant_->send && !MutateSend(from, zombie, &envelope)) continue;
      if (!Calm() && (Chance(options_.loss) || Parted(from, envelope.to.value))) {
        Count("messages lost");
        continue;
      }
      if (!Calm() && options_.damaged_payloads > 0 && Chance(options_.damaged_payloads)) Damage(&envelope.message);
      Enqueue(from, envelope, zombie);
      if (!Calm() && Chance(options_.duplication)) {
        Count("messages doubled");
        Enqueue(from, envelope, zombie);
      }
      if (!Calm() && options_.repeated_late > 0 && Chance(options_.repeated_late)) {
        Count("message delivered again after seconds");
        queue_.push({now_ + Up_to(10000), ++order_, from, envelope.to.value, envelope.message, zombie});
      }
    }
    outbox->Clear();
  }

  void Enqueue(std::uint64_t from, const Envelope& envelope, bool zombie) {
    Instant delay = Up_to(3);
    if (!Calm() && Chance(options_.late)) delay += Up_to(3000);
    queue_.push({now_ + delay, ++order_, from, envelope.to.value, envelope.message, zombie});
  }

  // Words that decide something are remembered apart: there are few of them.
  void Replay(const Delivery& delivery) {
    const Header& header = delivery.message.header;
    const bool decides = std::holds_alternative<Reset>(header) || std::holds_alternative<Commit>(header) ||
                         std::holds_alternative<Redo>(header) || std::holds_alternative<Prepared>(header) ||
                         std::holds_alternative<Committed>(header) || std::holds_alternative<ResetDone>(header) ||
                         std::holds_alternative<SnapshotDone>(header) || std::holds_alternative<Hello>(header);
    std::deque<Delivery>& history = history_[decides ? 1 : 0];
    history.push_back(delivery);
    if (history.size() > 200) history.pop_front();
    if (!Chance(options_.replays)) return;
    const std::deque<Delivery>& choice = history_[Chance(0.5) && !history_[1].empty() ? 1 : 0];
    if (choice.empty()) return;
    Delivery again = choice[random_.Below(choice.size())];
    again.at = now_ + Up_to(3);
    again.order = ++order_;
    queue_.push(std::move(again));
    Count("older message delivered again");
  }

  // A bit of a gradient or of weights flips.
  void Damage(Message* message) {
    const bool of_blocks =
        std::holds_alternative<Push>(message->header) || std::holds_alternative<Weights>(message->header);
    if (!of_blocks || message->payload.empty() || message->payload.size > pool_->buffer_bytes()) return;
    BufferRef copy = pool_->Take();
    std::memcpy(copy->data(), message->payload.data, message->payload.size);
    copy->data()[random_.Below(message->payload.size)] ^= std::byte{1};
    const std::byte* data = copy->data();
    message->payload = {std::move(copy), data, message->payload.size};
    Count("payload damaged on its way");
  }

  Tampering MakeTampering(std::uint64_t from, std::uint64_t to, const Message& message) {
    Tampering tampering;
    tampering.world = &Look();
    tampering.from = from;
    tampering.to = to;
    tampering.message = message;
    tampering.seen = &mutant_seen_;
    tampering.numbers = &mutant_numbers_;
    return tampering;
  }

  void SendForged(const Tampering& tampering) {
    for (const Tampering::Forged& forged : tampering.also) {
      Enqueue(forged.from, {PeerId{forged.to}, forged.message}, false);
    }
  }

  bool MutateSend(std::uint64_t from, bool zombie, Envelope* envelope) {
    Tampering tampering = MakeTampering(from, envelope->to.value, envelope->message);
    tampering.from_zombie = zombie;
    mutant_->send(&tampering);
    envelope->message = tampering.message;
    SendForged(tampering);
    return !tampering.drop;
  }

  // What the receiver acts on: the message as it was sent, unless a rule is broken.
  std::vector<Message> Arriving(const Delivery& delivery, const Coordinator* receiver) {
    if (mutant_ == nullptr || !mutant_->deliver) return {delivery.message};
    Tampering tampering = MakeTampering(delivery.from, delivery.to, delivery.message);
    tampering.receiver = receiver;
    tampering.from_zombie = delivery.zombie;
    mutant_->deliver(&tampering);
    SendForged(tampering);
    std::vector<Message> messages = std::move(tampering.before);
    if (!tampering.drop) messages.push_back(std::move(tampering.message));
    return messages;
  }

  // What arrives at a process that stands still waits in its socket.
  bool Postponed(const Delivery& delivery, Instant paused_until) {
    if (paused_until <= now_) return false;
    queue_.push({paused_until, ++order_, delivery.from, delivery.to, delivery.message, delivery.zombie});
    return true;
  }

  void Deliver() {
    const Delivery delivery = queue_.top();
    queue_.pop();
    now_ = std::max(now_, delivery.at);
    if (const auto lost = lost_through_.find(delivery.from);
        lost != lost_through_.end() && delivery.order <= lost->second) {
      return Count("messages lost with their sender");
    }
    if (options_.trace) {
      Trace(std::to_string(delivery.from) + " -> " + std::to_string(delivery.to) + " " +
            checks_->Describe(delivery.message.header));
    }
    if (const auto clog = clogs_.find(delivery.to); clog != clogs_.end() && Postponed(delivery, clog->second)) return;
    if (options_.replays > 0 && !Calm()) Replay(delivery);
    const PeerId from{delivery.from};
    if (delivery.to == kCoordinator) {
      if (zombie_.core) DeliverToCoordinator(&zombie_, delivery);
      if (coordinator_.core && !Postponed(delivery, coordinator_.paused_until)) {
        DeliverToCoordinator(&coordinator_, delivery);
      }
    } else if (delivery.to >= kWorkers) {
      const auto worker = workers_.find(delivery.to);
      if (worker == workers_.end() || Postponed(delivery, worker->second->paused_until)) return;
      markers_->ToWorker(Look(), delivery.to, worker->second->generation(), delivery.message);
      Outbox out;
      for (const Message& message : Arriving(delivery, nullptr)) {
        worker->second->Handle(from, message, now_ + worker->second->ahead, &out);
      }
      Send(delivery.to, &out);
    } else {
      const std::size_t index = delivery.to - kShards;
      if (index >= shards_.size() || !shards_[index].core || Postponed(delivery, shards_[index].paused_until)) return;
      DeliverToShard(index, delivery);
    }
    See();
  }

  void See() {
    checks_->See(coordinator_.core.get(), Look().shards, disks_);
    markers_->Stage(world_);
  }

  void DeliverToCoordinator(SimCoordinator* coordinator, const Delivery& delivery) {
    markers_->ToCoordinator(Look(), *coordinator->core, delivery.message);
    Outbox out;
    for (const Message& message : Arriving(delivery, coordinator->core.get())) {
      coordinator->core->Handle(PeerId{delivery.from}, message, now_ + coordinator->ahead, &out);
    }
    AfterCoordinator(coordinator, &out);
  }

  void DeliverToShard(std::size_t index, const Delivery& delivery) {
    SimShard& shard = shards_[index];
    markers_->ToShard(Look(), delivery.from, index, delivery.message, delivery.zombie);
    const Version before = shard.core->version();
    const std::uint64_t counted = shard.metrics->pushes_staged.value();
    const std::uint64_t repeated = shard.metrics->pushes_duplicate.value();
    Outbox out;
    for (const Message& message : Arriving(delivery, nullptr)) {
      shard.core->Handle(PeerId{delivery.from}, message, now_ + shard.ahead, &out);
    }
    if (const auto* push = std::get_if<Push>(&delivery.message.header)) {
      if (shard.metrics->pushes_staged.value() > counted) {
        markers_->Staged(delivery.from, index, *push);
        checks_->PushCounted(*shard.core, shard.life, index, before, *push);
      }
      if (shard.metrics->pushes_duplicate.value() > repeated) markers_->Repeated(delivery.from, *push);
    }
    const bool matters = shard.core->version() != before || std::holds_alternative<Redo>(delivery.message.header) ||
                         std::holds_alternative<Reset>(delivery.message.header) ||
                         std::holds_alternative<SnapshotsKept>(delivery.message.header);
    if (Chance(0.7)) shard.core->Flush(now_ + shard.ahead, &out);  // batches differ
    AfterShard(index, &out);
    if (matters) Aim(index);
  }

  void AfterCoordinator(SimCoordinator* coordinator, Outbox* out) {
    checks_->Take(coordinator->core->TakeRecords());  // also of one that was replaced: it writes the same file
    Send(kCoordinator, out, coordinator == &zombie_);
  }

  void AfterShard(std::size_t index, Outbox* out) {
    SimShard& shard = shards_[index];
    for (server::DiskWork& work : shard.core->TakeDiskWork()) {
      const Instant before = shard.disk_work.empty() ? now_ : std::max(now_, shard.disk_work.back().first);
      const bool slow = !Calm() && Chance(options_.slow_disk);
      shard.disk_work.emplace_back(before + Up_to(slow ? 2000 : 20), std::move(work));
    }
    Send(kShards + index, out);
  }

  // ---- time
  void TickAll() {
    Outbox out;
    for (SimCoordinator* coordinator : {&zombie_, &coordinator_}) {
      if (!coordinator->core || coordinator->paused_until > now_) continue;
      coordinator->core->Tick(now_ + coordinator->ahead, &out);
      AfterCoordinator(coordinator, &out);
    }
    for (std::size_t i = 0; i < shards_.size(); ++i) TickShard(i);
    std::vector<SimWorker*> workers;
    for (const auto& [node, worker] : workers_) workers.push_back(worker.get());
    for (SimWorker* worker : workers) {
      if (worker->paused_until > now_) continue;
      worker->Tick(now_ + worker->ahead, &out);
      Send(worker->node(), &out);
      if (!worker->violation().empty()) outcome_.violation = worker->violation();
    }
    if (!Calm()) InjectFaults();
    RestartTheDead();
    See();
  }

  void TickShard(std::size_t index) {
    SimShard& shard = shards_[index];
    if (!shard.core || shard.paused_until > now_) return;
    Outbox out;
    while (!shard.disk_work.empty() && shard.disk_work.front().first <= now_) {
      server::DiskWork work = std::move(shard.disk_work.front().second);
      shard.disk_work.pop_front();
      server::DiskResult result = server::CarryOut(std::move(work), &disks_[index]);
      markers_->DiskWorked(Look(), result);
      const auto* remembered = std::get_if<server::LifeRemembered>(&result);
      if (remembered != nullptr && !remembered->status.ok()) {  // as its loop does
        Count("shards ended by a full disk");
        return KillShard(index);
      }
      shard.core->Handle(std::move(result), now_ + shard.ahead, &out);
    }
    shard.core->Flush(now_ + shard.ahead, &out);
    shard.core->Tick(now_ + shard.ahead, &out);
    AfterShard(index, &out);
  }

  // ---- faults
  void InjectFaults() {
    if (coordinator_.core && Strikes(options_.coordinator_crashes)) KillCoordinator();
    if (zombie_.core && now_ >= zombie_until_) zombie_.core.reset();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].core && Strikes(options_.shard_crashes)) KillShard(i);
    }
    if (Strikes(options_.crashes_of_all)) KillAll();
    if (!workers_.empty() && Strikes(options_.worker_crashes)) KillWorker();
    if (!workers_.empty() && Strikes(options_.worker_pauses)) {
      RandomWorker()->second->paused_until = now_ + Up_to(9000);
      Count("worker pauses");
    }
    if (Strikes(options_.server_pauses)) PauseServer();
    if (Strikes(options_.partitions)) Part();
    if (Strikes(options_.joins_and_leaves)) JoinOrLeave();
    InjectDiskFaults();
    if (Strikes(options_.clock_jumps)) JumpClock();
    if (Strikes(options_.clogs)) Clog();
    if (!workers_.empty() && workers_.size() < 6 && Strikes(options_.same_names)) {
      StartWorker(RandomWorker()->second->name());
    }
  }

  void InjectDiskFaults() {
    if (Strikes(options_.full_disks)) {
      full_disk_ = random_.Below(shards_.size());
      full_until_ = now_ + Up_to(4000);
      disks_[full_disk_].set_full(true);
      Count("full disks");
    }
    if (full_until_ != Instant{} && now_ >= full_until_) {
      disks_[full_disk_].set_full(false);
      full_until_ = {};
    }
    const bool two = coordinator_.core && coordinator_.core->manifests().size() >= 2;
    if (!damaged_ && two && Strikes(options_.damage)) {
      const SnapshotId id = coordinator_.core->newest_snapshot();
      damaged_ = disks_[random_.Below(shards_.size())].Damage(id, random_.Next64());
      if (damaged_) Count("snapshots damaged");
      if (damaged_) Trace("the snapshot of version " + std::to_string(id.version.value) + " is damaged");
    }
  }

  // Something has just reached one shard, and perhaps not the others.
  void Aim(std::size_t index) {
    if (Calm() || options_.aimed_crashes <= 0 || !Chance(options_.aimed_crashes)) return;
    const bool coordinator = coordinator_.core && Chance(0.7);
    if (Chance(0.7)) lost_through_[coordinator ? kCoordinator : kShards + index] = order_;
    if (coordinator) {
      KillCoordinator();
    } else {
      KillShard(index);
    }
    Count("aimed crashes");
  }

  // Up to twice a worker's lease, at once.
  void JumpClock() {
    const std::size_t which = random_.Below(1 + shards_.size() + workers_.size());
    const Instant by = Up_to(8000);
    if (which == 0) {
      coordinator_.ahead += by;
    } else if (which <= shards_.size()) {
      shards_[which - 1].ahead += by;
    } else {
      RandomWorker()->second->ahead += by;
    }
    Count("clock jumps");
  }

  // One after the other some processes' networks clog; each has an end of its own.
  void Clog() {
    std::vector<std::uint64_t> nodes = {kCoordinator};
    for (std::size_t i = 0; i < shards_.size(); ++i) nodes.push_back(kShards + i);
    for (const auto& [node, worker] : workers_) nodes.push_back(node);
    std::erase_if(clogs_, [&](const auto& clog) { return clog.second <= now_; });
    for (std::uint64_t node : nodes) {
      if (Chance(0.4)) clogs_[node] = now_ + Up_to(4000);
    }
    Count("network clogs");
  }

  void KillCoordinator() {
    Trace("coordinator dies");
    Count("coordinator crashes");
    markers_->CoordinatorDies(Look());
    if (!Chance(options_.zombies)) return StopCoordinator();
    // It only seems dead: another one takes its place and its log, and it goes on for a while.
    log_->Fence();
    records_.Crash();
    zombie_ = std::move(coordinator_);
    coordinator_ = {};
    zombie_until_ = now_ + Up_to(3000);
    Count("zombie coordinators");
  }

  void KillAll() {
    Count("crashes of all");
    if (coordinator_.core) StopCoordinator();
    zombie_.core.reset();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].core) KillShard(i);
    }
    for (const auto& [node, worker] : workers_) dead_workers_.push_back({worker->name(), now_});
    workers_.clear();
    if (Chance(0.5)) ChangeShardCount(1 + static_cast<std::uint32_t>(random_.Below(kShardsMax)));
  }

  void ChangeShardCount(std::uint32_t count) {
    if (count == shards_.size()) return;
    Trace("from now on there are " + std::to_string(count) + " shards");
    Count(count < shards_.size() ? "fewer shards" : "more shards");
    shards_.clear();
    shards_.resize(count);
    config_.cluster.servers = count;
    for (SimDisk& disk : disks_) disk.ForgetOrphans();
    for (std::uint32_t i = count; i < kShardsMax; ++i) disks_[i % count].Adopt(&disks_[i]);
    checks_->ForgetShards();
  }

  void PauseServer() {
    const Instant until = now_ + Up_to(6000);
    const std::size_t which = random_.Below(shards_.size() + 1);
    (which < shards_.size() ? shards_[which].paused_until : coordinator_.paused_until) = until;
    Count(which < shards_.size() ? "shard pauses" : "coordinator pauses");
  }

  void Part() {
    Partition partition;
    std::vector<std::uint64_t> nodes = {kCoordinator};
    for (std::size_t i = 0; i < shards_.size(); ++i) nodes.push_back(kShards + i);
    for (const auto& [node, worker] : workers_) nodes.push_back(node);
    for (std::uint64_t node : nodes) (Chance(0.4) ? partition.from : partition.to).insert(node);
    partition.until = now_ + Up_to(5000);
    partitions_.push_back(partition);
    if (Chance(0.5)) {  // both ways
      std::swap(partition.from, partition.to);
      partitions_.push_back(partition);
    }
    markers_->Parted(partition.from, partition.to, shards_.size());
    std::erase_if(partitions_, [&](const Partition& p) { return p.until <= now_; });
    Count("partitions");
  }

  std::map<std::uint64_t, std::unique_ptr<SimWorker>>::iterator RandomWorker() {
    auto it = workers_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.Below(workers_.size())));
    return it;
  }

  void KillWorker() {
    const auto victim = RandomWorker();
    Count("worker crashes");
    markers_->WorkerDies(Look(), victim->first, victim->second->has_work());
    Trace("worker " + std::to_string(victim->first) + " dies");
    dead_workers_.push_back({victim->second->name(), now_ + Up_to(2000)});
    workers_.erase(victim);
  }

  void JoinOrLeave() {
    if (workers_.size() > 1 && Chance(0.5)) {
      const auto worker = RandomWorker();
      Outbox out;
      worker->second->Leave(&out);
      Send(worker->first, &out);
      workers_.erase(worker);
    } else if (workers_.size() < 6) {
      StartWorker("extra" + std::to_string(random_.Below(4)));
    }
  }

  void RestartTheDead() {
    if (Calm()) {
      zombie_.core.reset();
      clogs_.clear();
      for (SimDisk& disk : disks_) disk.set_full(false);
    }
    if (!coordinator_.core && (Calm() || Chance(0.05))) StartCoordinator();
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i].core && (Calm() || Chance(0.05))) StartShard(i);
    }
    for (auto it = dead_workers_.begin(); it != dead_workers_.end();) {
      if (it->second > now_ && !Calm()) {
        ++it;
        continue;
      }
      StartWorker(it->first);
      it = dead_workers_.erase(it);
    }
    std::erase_if(workers_, [](const auto& entry) { return entry.second->exited(); });
    if (!workers_.empty() || Done()) return;
    markers_->NoWorkers(Look());
    const bool away = options_.workers_stay_away && !Calm() && (!dead_workers_.empty() || !Chance(0.05));
    if (!away) StartWorker("w0");
  }

  // ---- the end
  bool Done() const {
    if (!coordinator_.core || coordinator_.core->state() != Coordinator::State::kFinished) return false;
    if (!coordinator_.core->SnapshotsSettled()) return false;
    return std::all_of(shards_.begin(), shards_.end(), [&](const SimShard& shard) {
      return shard.core && shard.core->serving() && shard.core->generation() == coordinator_.core->generation() &&
             shard.core->version().value == options_.steps;
    });
  }

  std::string WhoIsMissing() const {
    std::string missing = "not finished; waiting for ";
    if (coordinator_.core) {
      missing += coordinator_.core->WaitingFor(now_) + " (state " +
                 std::to_string(static_cast<int>(coordinator_.core->state())) + ", " +
                 coordinator_.core->failure().message() + ")";
    } else {
      missing += "a coordinator";
    }
    for (const SimShard& shard : shards_) {
      missing += "; shard at version " + std::to_string(shard.core ? shard.core->version().value : 0) +
                 " of generation " + std::to_string(shard.core ? shard.core->generation().value : 0);
    }
    for (const auto& [node, worker] : workers_) missing += "; " + worker->name() + " waits for " + worker->WaitingFor();
    return missing;
  }

  void Finish() {
    outcome_.counts["messages"] = messages_;
    outcome_.finished = outcome_.violation.empty() && Done();
    outcome_.ended_at = now_;
    if (coordinator_.core) checks_->Add(*coordinator_.metrics);
    for (const SimShard& shard : shards_) {
      if (shard.core) checks_->Add(*shard.metrics);
    }
    if (!outcome_.finished) {
      if (outcome_.violation.empty()) outcome_.violation = WhoIsMissing();
      return;
    }
    if (!server::HasGlobalSteps(options_.mode)) checks_->EveryPushCountedOnce(Look().shards);
    outcome_.weights.assign(catalog_->element_count(), NAN);
    for (const SimShard& shard : shards_) {
      for (std::size_t local = 0; local < shard.core->store().size(); ++local) {
        const Block& block = catalog_->blocks()[shard.core->store().blocks()[local]];
        const Slice weights = shard.core->store().Weights(local);
        std::memcpy(outcome_.weights.data() + block.flat_offset, weights.data, weights.size);
      }
    }
  }

  struct Partition {
    std::set<std::uint64_t> from, to;  // what these send does not reach those
    Instant until{};
  };

  const ClusterOptions options_;
  const Mutant* const mutant_;
  const Flaw flaw_;
  RandomStream random_;
  JobConfig config_;
  const std::vector<TensorSpec> tensors_;
  std::unique_ptr<Catalog> catalog_;
  SimLog records_;
  std::shared_ptr<FencedLog> log_;  // of the coordinator that is alive
  std::vector<std::shared_ptr<FencedLog>> logs_;
  std::unique_ptr<BufferPool> pool_ = std::make_unique<BufferPool>(4096);

  SimCoordinator coordinator_, zombie_;
  Instant zombie_until_{};
  std::vector<SimShard> shards_;
  std::vector<SimDisk> disks_;
  std::size_t full_disk_ = 0;
  Instant full_until_{};
  bool damaged_ = false;
  std::map<std::uint64_t, std::unique_ptr<SimWorker>> workers_;
  std::uint64_t worker_lives_ = 0;
  std::vector<std::pair<std::string, Instant>> dead_workers_;
  std::vector<Partition> partitions_;

  std::priority_queue<Delivery, std::vector<Delivery>, std::greater<>> queue_;
  std::uint64_t order_ = 0, messages_ = 0;
  std::map<std::uint64_t, Instant> clogs_;               // until when nothing reaches it
  std::map<std::uint64_t, std::uint64_t> lost_through_;  // by sender: what was still in its sockets when it died
  World world_;
  std::array<std::deque<Delivery>, 2> history_;
  std::unique_ptr<Markers> markers_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> mutant_seen_;
  std::map<std::uint64_t, std::uint64_t> mutant_numbers_;
  Instant now_{}, last_tick_{};
  std::unique_ptr<Checks> checks_;
  Outcome outcome_;
};

}  // namespace

Outcome RunCluster(const ClusterOptions& options, const Mutant* mutant) { return Cluster(options, mutant).Run(); }

}  // namespace capstan::sim
