// The faults that hit a simulated cluster: crashes, pauses, partitions, full and damaged disks, and others.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "tests/sim/cluster_state.h"

namespace capstan::sim {

void Cluster::InjectFaults() {
  if (coordinator_.core && Strikes(options_.coordinator_crashes)) KillCoordinator();
  if (zombie_.core && now_ >= zombie_until_) zombie_.core.reset();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].core && Strikes(options_.shard_crashes)) KillShard(i);
  }
  if (Strikes(options_.crashes_of_all)) KillAll();
  if (Strikes(options_.stops)) RequestStop();
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
  if (shared_ && Strikes(options_.given_up) && shared_->GiveUpOne(&random_)) Count("connections given up");
  if (!workers_.empty() && workers_.size() < 6 && Strikes(options_.same_names)) {
    StartWorker(RandomWorker()->second->name());
  }
}

void Cluster::InjectDiskFaults() {
  // A job fails if its first weights cannot be written, so no disk fills up before they are.
  const bool may_fill = !options_.given || (coordinator_.core && !coordinator_.core->manifests().empty());
  if (Strikes(options_.full_disks) && may_fill) {
    ++troubles_;
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
    if (damaged_) checks_->MayGoBack();
    if (damaged_) Count("snapshots damaged");
    if (damaged_) Trace("the snapshot of version " + std::to_string(id.version.value) + " is damaged");
  }
}

void Cluster::Aim(std::size_t index) {
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

void Cluster::JumpClock() {
  ++troubles_;
  const std::size_t which = random_.Below(1 + shards_.size() + workers_.size());
  const Instant by = Up_to(8000);
  if (which == 0) {
    coordinator_.clock_offset += by;
  } else if (which <= shards_.size()) {
    shards_[which - 1].clock_offset += by;
  } else {
    RandomWorker()->second->clock_offset += by;
  }
  Count("clock jumps");
}

void Cluster::Clog() {
  ++troubles_;
  std::vector<std::uint64_t> nodes = {kCoordinator};
  for (std::size_t i = 0; i < shards_.size(); ++i) nodes.push_back(kShards + i);
  for (const auto& [node, worker] : workers_) nodes.push_back(node);
  std::erase_if(clogs_, [&](const auto& clog) { return clog.second <= now_; });
  for (std::uint64_t node : nodes) {
    if (Chance(0.4)) clogs_[node] = now_ + Up_to(4000);
  }
  Count("network clogs");
}

void Cluster::KillCoordinator() {
  Trace("coordinator dies");
  Count("coordinator crashes");
  markers_->CoordinatorDies(Look());
  if (!Chance(options_.zombies)) return StopCoordinator();
  // The coordinator only seems dead: another one takes over its address and its log, and the old one runs on for a
  // while.
  log_->Fence();
  records_.Crash();
  stop_.reset();
  zombie_ = std::move(coordinator_);
  coordinator_ = {};
  zombie_until_ = now_ + Up_to(3000);
  Count("zombie coordinators");
}

void Cluster::KillAll() {
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

bool Cluster::CanStop() const {
  const bool room = full_until_ == Instant{};
  return room && std::all_of(shards_.begin(), shards_.end(), [&](const SimShard& shard) {
           return shard.core && shard.core->serving() && shard.core->generation() == coordinator_.core->generation();
         });
}

void Cluster::RequestStop() {
  if (!coordinator_.core || coordinator_.core->state() != Coordinator::State::kRunning || stop_) return;
  Trace("a stop is asked for");
  Count("stops asked for");
  coordinator_.core->RequestStop(now_ + coordinator_.clock_offset);
  stop_ = Stop{now_, troubles_, CanStop(), coordinator_.core->generation()};
}

// Ends the servers of a stopped job. If the job keeps snapshots, and nothing kept it from taking one, the last snapshot
// must have the job's newest version.
void Cluster::EndStopped() {
  Trace("the job has stopped");
  Count("jobs stopped, and resumed");
  const Coordinator& coordinator = *coordinator_.core;
  const bool late = now_ - stop_->since >= std::chrono::seconds(55);
  const bool keeps = options_.snapshot_every_steps > 0 || options_.snapshot_every_seconds > 0;
  const bool failed = coordinator_.metrics->snapshots_failed.value() > 0;  // that version is not tried again
  // In allreduce the workers have the version. If none is left, no process can upload it to the servers.
  // The same in an external job, which then goes back, if the programs that are left have no present version.
  const bool lost = options_.optimizer == OptimizerKind::kExternal
                        ? coordinator.generation() != stop_->generation
                        : WorkersUpdate(options_.mode) && coordinator.worker_count() == 0;
  if (keeps && stop_->undisturbed && stop_->troubles == troubles_ && !late && !failed && !lost) {
    Count("jobs stopped, and nothing befell their servers");
    if (coordinator.newest_snapshot().version.value < coordinator.step().value) {
      outcome_.violation = "a job was stopped at step " + std::to_string(coordinator.step().value) +
                           ", and its last snapshot is of version " +
                           std::to_string(coordinator.newest_snapshot().version.value);
    }
  }
  StopCoordinator();
  zombie_.core.reset();
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].core) KillShard(i);
  }
  if (Chance(0.3)) ChangeShardCount(1 + static_cast<std::uint32_t>(random_.Below(kShardsMax)));
  if (Chance(0.7)) return;  // workers wait for the job to continue
  for (const auto& [node, worker] : workers_) dead_workers_.push_back({worker->name(), now_});
  workers_.clear();
}

void Cluster::ChangeShardCount(std::uint32_t count) {
  if (count == shards_.size()) return;
  Trace("from now on there are " + std::to_string(count) + " shards");
  Count(count < shards_.size() ? "fewer shards" : "more shards");
  shards_.clear();
  shards_.resize(count);
  config_.cluster.servers = count;
  for (SimDisk& disk : disks_) disk.ForgetOrphans();
  for (std::uint32_t i = count; i < kShardsMax; ++i) disks_[i % count].Adopt(&disks_[i]);
  checks_->ForgetShards();
  checks_->MayGoBack();
}

void Cluster::PauseServer() {
  ++troubles_;
  const Instant until = now_ + Up_to(6000);
  const std::size_t which = random_.Below(shards_.size() + 1);
  (which < shards_.size() ? shards_[which].paused_until : coordinator_.paused_until) = until;
  Count(which < shards_.size() ? "shard pauses" : "coordinator pauses");
}

void Cluster::Part() {
  ++troubles_;
  Partition partition;
  std::vector<std::uint64_t> nodes = {kCoordinator};
  for (std::size_t i = 0; i < shards_.size(); ++i) nodes.push_back(kShards + i);
  for (const auto& [node, worker] : workers_) nodes.push_back(node);
  for (std::uint64_t node : nodes) (Chance(0.4) ? partition.from : partition.to).insert(node);
  partition.until = now_ + Up_to(5000);
  partitions_.push_back(partition);
  if (Chance(0.5)) {  // both directions
    std::swap(partition.from, partition.to);
    partitions_.push_back(partition);
  }
  markers_->Parted(partition.from, partition.to, shards_.size());
  std::erase_if(partitions_, [&](const Partition& p) { return p.until <= now_; });
  Count("partitions");
}

std::map<std::uint64_t, std::unique_ptr<SimWorker>>::iterator Cluster::RandomWorker() {
  auto it = workers_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(random_.Below(workers_.size())));
  return it;
}

void Cluster::KillWorker() {
  const auto victim = RandomWorker();
  Count("worker crashes");
  markers_->WorkerDies(Look(), victim->first, victim->second->has_work());
  Trace("worker " + std::to_string(victim->first) + " dies");
  lines_.Forget(victim->first);
  if (WorkersUpdate(options_.mode) && Chance(0.3)) lost_through_[victim->first] = order_;
  dead_workers_.push_back({victim->second->name(), now_ + Up_to(2000)});
  workers_.erase(victim);
}

void Cluster::JoinOrLeave() {
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

void Cluster::RestartTheDead() {
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

}  // namespace capstan::sim
