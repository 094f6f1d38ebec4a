#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "server/shard/admission.h"
#include "tests/sim/cluster_state.h"
#include "tests/sim/model.h"
#include "update/optimizer.h"

namespace capstan::sim {

namespace {

constexpr Instant kMillisecond = std::chrono::milliseconds(1);

}  // namespace

Cluster::Cluster(const ClusterOptions& options, const Mutant* mutant)
    : options_(options),
      mutant_(mutant),
      flaw_(mutant != nullptr ? mutant->flaw : Flaw::kNone),
      random_(options.seed, 1),
      secrets_(options.seed, 13),
      config_(MakeConfig(options)),
      tensors_(MakeCatalog(options)),
      records_(flaw_, config_.snapshot.keep),
      wire_(flaw_ == Flaw::kSmallFrames ? 256 : TransportOptions{}.frame_bytes_max),
      lines_(options.line_bytes_per_second, options.line_messages_max) {
  catalog_ = std::make_unique<Catalog>(std::move(Catalog::Create(tensors_, options.block_elements)).value());
  pool_ = std::make_unique<BufferPool>(std::max<std::size_t>(4096, catalog_->element_count() * sizeof(float)));
  checks_ = std::make_unique<Checks>(options_, &outcome_);
  markers_ = std::make_unique<Markers>(options_, &outcome_);
  if (options_.shared_memory) shared_ = std::make_unique<SharedLines>(pool_.get(), flaw_);
  disks_.resize(std::max(kShardsMax, options.shards));
  for (SimDisk& disk : disks_) {
    disk.set_flaw(flaw_);
    disk.set_reports_max(options_.reports_max);
    disk.set_kills_when_full(options_.full_disks_kill);
  }
  StartCoordinator();
  shards_.resize(options.shards);
  for (std::uint32_t i = 0; i < options.shards; ++i) StartShard(i);
  for (std::uint32_t i = 0; i < options.workers; ++i) StartWorker("w" + std::to_string(i));
  if (!options.follower) return;
  follower_ = std::make_unique<Follower>(options.block_elements,
                                         [this](const client::ReaderCore::Reading& reading, const float* weights) {
                                           Count("versions read by a follower");
                                           checks_->Followed(Version{reading.step.value}, weights);
                                         });
}

Outcome Cluster::Run() {
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

// ---- processes

void Cluster::StartCoordinator() {
  server::CoordinatorOptions options;
  options.config = config_;
  options.slow_after = options_.slow_after;
  options.job_file = PrintJobConfig(config_);
  options.job = JobId{1, options_.seed};
  options.block_elements = options_.block_elements;
  options.accept_loss = true;  // the checks demand a log line for each loss
  options.draw_secret = [this] { return secrets_.Next64(); };
  log_ = std::make_shared<FencedLog>(&records_);
  logs_.push_back(log_);
  coordinator_.metrics = std::make_shared<monitoring::CoordinatorMetrics>();
  coordinator_.core = std::make_unique<Coordinator>(std::move(options), log_.get(), coordinator_.metrics, now_);
  coordinator_.paused_until = coordinator_.clock_offset = {};
  Trace("coordinator starts, term " + std::to_string(coordinator_.core->term().value));
}

void Cluster::StopCoordinator() {
  checks_->Add(*coordinator_.metrics);
  coordinator_.core.reset();
  records_.Crash();
  lines_.Forget(kCoordinator);
  stop_.reset();  // the next coordinator does not know of it
}

void Cluster::StartShard(std::uint32_t index) {
  SimDisk& disk = disks_[index];
  server::ShardIdentity identity = disk.identity();
  identity.shard = index;
  identity.incarnation = identity.incarnation.Next();
  if (!disk.PersistIdentity(identity).ok()) return Count("shards that cannot start on a full disk");
  server::ShardOptions options;
  options.shard = index;
  options.shard_count = static_cast<std::uint32_t>(shards_.size());
  options.incarnation = identity.incarnation;
  options.identity = identity;
  options.parts = disk.List();
  options.endpoint = "shard-" + std::to_string(index);
  options.metrics = "shard-" + std::to_string(index) + ":1";
  options.connect = [](const std::string& endpoint) { return PeerId{kShards + std::stoull(endpoint.substr(6))}; };
  options.coordinator = PeerId{kCoordinator};
  options.job = server::JobSettingsOf(config_);
  options.job.seed = 5;
  options.log_records_max = options_.log_records_max;
  options.reports_max = std::min(options.reports_max, options_.reports_max);
  options.window_blocks = options_.window_blocks;
  options.block_elements = options_.block_elements;
  SimShard& shard = shards_[index];
  shard = {};
  shard.incarnation = identity.incarnation;
  shard.metrics = std::make_shared<monitoring::ShardMetrics>();
  shard.core = std::make_unique<Shard>(std::move(options), shard.metrics);
  Trace("shard " + std::to_string(index) + " starts, incarnation " + std::to_string(identity.incarnation.value));
}

void Cluster::KillShard(std::size_t index) {
  SimShard& shard = shards_[index];
  Trace("shard " + std::to_string(index) + " dies");
  const bool writing =
      !shard.disk_work.empty() && std::holds_alternative<server::WriteSnapshot>(shard.disk_work.front().second);
  markers_->ShardDies(Look(), index, writing);
  if (!shard.disk_work.empty() && Chance(0.5)) {
    (void)server::Execute(std::move(shard.disk_work.front().second), &disks_[index]);
    Count("disk work done, shard dead before it knew");
  }
  TearLog(index);
  ++troubles_;
  lines_.Forget(kShards + index);
  if (shared_) shared_->End(kShards + index);
  checks_->Add(*shard.metrics);
  shard = {};
  disks_[index].Crash();
  Count("shard crashes");
}

void Cluster::TearLog(std::size_t index) {
  SimShard& shard = shards_[index];
  if (shard.log_work.empty()) return;
  server::LogWork& work = shard.log_work.front().second;
  auto* append = std::get_if<server::AppendLog>(&work);
  if (append != nullptr) Count("shard died with an append under way");
  if (Chance(0.4)) return;
  SimPushLog* log = disks_[index].push_log();
  if (append != nullptr && Chance(0.7)) {
    const std::size_t left = random_.Below(append->records->size() + 1);
    if (left > 0 && left < append->records->size()) Count("append torn when its shard died");
    log->FailNext(left);
  }
  (void)server::Execute(work, log);
}

void Cluster::StartWorker(const std::string& name) {
  const std::uint64_t node = kWorkers + ++worker_lives_;
  SimWorker::Settings settings{node,
                               name,
                               &options_,
                               &tensors_,
                               catalog_.get(),
                               pool_.get(),
                               &random_,
                               PeerId{kCoordinator},
                               flaw_,
                               EncodingOf(config_),
                               {},
                               &config_,
                               ReplicaSettings(node),
                               MachineSettings(node),
                               {}};
  settings.made = [this](Version version, const std::vector<float>& weights, const std::string& state) {
    Count("versions made by a program");
    checks_->ProgramMade(version, weights, state);
  };
  settings.handed_over = [this](Version version, BlockIndex block, const Slice& payload) {
    checks_->HandedOver(version, block, payload, EncodingOf(config_));
  };
  workers_.emplace(node, std::make_unique<SimWorker>(std::move(settings)));
  markers_->WorkerStarts(Look());
  Trace("worker " + name + " starts as " + std::to_string(node));
}

ReplicaWorker::Settings Cluster::ReplicaSettings(std::uint64_t node) {
  ReplicaWorker::Settings settings{node, &options_, catalog_.get(), &random_, &board_, flaw_, {}, {}, {}, {}};
  settings.read = [this](Version version, Generation generation) -> std::optional<Arrays> {
    for (const SimShard& shard : shards_) {
      if (!shard.core || !shard.core->serving() || shard.core->generation() != generation) return std::nullopt;
    }
    return checks_->replicas()->Read(Look().shards, generation, version);
  };
  settings.computes_with = [this](Generation generation, Version version, const Arrays& arrays) {
    checks_->replicas()->ComputesWith(generation, version, arrays);
  };
  settings.made = [this](Generation generation, Version version, const Arrays& arrays) {
    checks_->replicas()->Made(generation, version, arrays);
  };
  settings.count = [this](const char* what) { Count(what); };
  return settings;
}

MachineWorker::Settings Cluster::MachineSettings(std::uint64_t node) {
  const auto count = [this](const char* what) { Count(what); };
  return {node, &options_, catalog_.get(), &random_, pool_.get(), &machine_board_, EncodingOf(config_), flaw_, count};
}

// ---- time

void Cluster::TickAll() {
  Outbox out;
  for (SimCoordinator* coordinator : {&zombie_, &coordinator_}) {
    if (!coordinator->core || coordinator->paused_until > now_) continue;
    coordinator->core->Tick(now_ + coordinator->clock_offset, &out);
    AfterCoordinator(coordinator, &out);
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) TickShard(i);
  std::vector<SimWorker*> workers;
  for (const auto& [node, worker] : workers_) workers.push_back(worker.get());
  for (SimWorker* worker : workers) {
    if (worker->paused_until > now_) continue;
    worker->Tick(now_ + worker->clock_offset, &out);
    Send(worker->node(), &out);
    if (!worker->violation().empty()) outcome_.violation = worker->violation();
    if (worker->has_work() && options_.mode == Mode::kSync) {
      checks_->SeeUpdates(worker->work().step, worker->work().updates);
    }
  }
  TickFollower();
  const bool stopped = coordinator_.core && coordinator_.core->state() == Coordinator::State::kStopped;
  if (stopped || (flaw_ == Flaw::kStopAtOnce && stop_)) EndStopped();
  if (!Calm()) InjectFaults();
  if (shared_) shared_->Tend(now_, [this](std::uint64_t node) { return Lives(node); });
  RestartTheDead();
  See();
}

void Cluster::TickFollower() {
  if (!follower_) return;
  Outbox out;
  follower_->Tick(now_, &out);
  Send(kReader, &out);
  if (!follower_->violation().empty()) outcome_.violation = follower_->violation();
}

void Cluster::TickShard(std::size_t index) {
  SimShard& shard = shards_[index];
  if (!shard.core || shard.paused_until > now_) return;
  Outbox out;
  while (!shard.disk_work.empty() && shard.disk_work.front().first <= now_) {
    server::DiskWork work = std::move(shard.disk_work.front().second);
    shard.disk_work.pop_front();
    server::DiskResult result = server::Execute(std::move(work), &disks_[index]);
    markers_->DiskWorked(Look(), result);
    const auto* remembered = std::get_if<server::IdentityPersisted>(&result);
    if (remembered != nullptr && !remembered->status.ok()) {  // as its loop does
      Count("shards ended by a full disk");
      return KillShard(index);
    }
    shard.core->Handle(std::move(result), now_ + shard.clock_offset, &out);
  }
  WorkLog(index, &out);
  shard.core->Flush(now_ + shard.clock_offset, &out);
  shard.core->Tick(now_ + shard.clock_offset, &out);
  AfterShard(index, &out);
}

void Cluster::WorkLog(std::size_t index, Outbox* out) {
  SimShard& shard = shards_[index];
  SimPushLog* log = disks_[index].push_log();
  while (!shard.log_work.empty() && shard.log_work.front().first <= now_) {
    const server::LogWork work = std::move(shard.log_work.front().second);
    shard.log_work.pop_front();
    const auto* append = std::get_if<server::AppendLog>(&work);
    if (append != nullptr && !Calm() && Chance(options_.failed_appends)) {
      const std::size_t left = random_.Below(append->records->size() + 1);
      if (left > 0) Count("append failed and left something behind");
      log->FailNext(left);
    }
    server::LogResult result = server::Execute(work, log);
    markers_->LogWorked(result);
    shard.core->Handle(std::move(result), now_ + shard.clock_offset, out);
  }
}

// ---- the end

bool Cluster::Done() const {
  if (!coordinator_.core || coordinator_.core->state() != Coordinator::State::kFinished) return false;
  if (!coordinator_.core->SnapshotsSettled() || (follower_ && !follower_->done())) return false;
  return std::all_of(shards_.begin(), shards_.end(), [&](const SimShard& shard) {
    return shard.core && shard.core->serving() && shard.core->generation() == coordinator_.core->generation() &&
           shard.core->version().value == options_.steps;
  });
}

std::string Cluster::WhoIsMissing() const {
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
  if (follower_ && !follower_->done()) missing += "; the follower waits for " + follower_->WaitingFor();
  return missing;
}

void Cluster::Finish() {
  outcome_.counts["messages"] = messages_;
  outcome_.counts["payload bytes sent"] = payload_.sent();
  outcome_.counts["payload bytes needed"] = payload_.needed();
  const double factor = options_.payload_factor_max;
  if (factor > 0 && outcome_.violation.empty()) outcome_.violation = payload_.Judge(factor);
  outcome_.finished = outcome_.violation.empty() && Done();
  outcome_.ended_at = now_;
  outcome_.events_hash = events_.Digest();
  if (coordinator_.core) checks_->Add(*coordinator_.metrics);
  for (const SimShard& shard : shards_) {
    if (shard.core) checks_->Add(*shard.metrics);
  }
  if (!outcome_.finished) {
    if (outcome_.violation.empty()) outcome_.violation = WhoIsMissing();
    return;
  }
  if (!HasGlobalSteps(options_.mode)) checks_->EveryPushCountedOnce(Look().shards);
  outcome_.weights.assign(catalog_->element_count(), NAN);
  for (const SimShard& shard : shards_) {
    for (std::size_t index = 0; index < shard.core->store().size(); ++index) {
      const Block& block = catalog_->blocks()[shard.core->store().blocks()[index]];
      const Slice weights = shard.core->store().Weights(index);
      std::memcpy(outcome_.weights.data() + block.flat_offset, weights.data, weights.size);
    }
  }
}

Outcome RunCluster(const ClusterOptions& options, const Mutant* mutant) { return Cluster(options, mutant).Run(); }

}  // namespace capstan::sim
