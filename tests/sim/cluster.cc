#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/hash.h"
#include "server/optimizer.h"

namespace capstan::sim {

namespace {

using client::Session;
using client::SlotSums;

constexpr Instant kMillisecond = std::chrono::milliseconds(1);
constexpr std::uint64_t kCoordinator = 1;  // node ids: 1; 100 + shard; 1000 + worker life

// Address of a process as another one sees it: node ids double as peer ids, one life each for workers.
struct Delivery {
  Instant at{};
  std::uint64_t order = 0;
  std::uint64_t from = 0, to = 0;
  Message message;
  bool operator>(const Delivery& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
};

JobConfig MakeConfig(const ClusterOptions& options) {
  JobConfig config;
  config.job.mode = options.mode;
  config.job.steps = options.steps;
  config.job.slots = options.slots;
  config.job.global_batch = options.slots;
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.kind = OptimizerKind::kAdamW;
  config.optimizer.lr = 0.05;
  config.optimizer.clip_norm = options.clip_norm;
  config.schedule.kind = ScheduleKind::kCosine;
  config.schedule.warmup_steps = 2;
  config.cluster.servers = options.shards;
  config.cluster.workers = options.workers;
  config.cluster.min_workers = 1;
  config.limits.stall = 0;
  config.limits.join = 0;
  config.limits.lease = 4;
  return config;
}

std::vector<TensorSpec> MakeCatalog(const ClusterOptions& options) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < options.tensor_sizes.size(); ++i) {
    tensors.push_back({"t" + std::to_string(i), {options.tensor_sizes[i]}, {InitKind::kUniform, 1.0F}, i % 2 == 0});
  }
  return tensors;
}

// Samples of a slot: 0 to 3, the same whoever asks.
std::uint64_t SamplesOf(const ClusterOptions& options, Step step, SlotIndex slot) {
  const std::uint64_t draw = PhiloxKey(99, step.value, slot);
  if (options.empty_slots && draw % 3 == 0) return 0;
  return 1 + draw % 3;
}

// A gradient that depends on everything it may depend on, and on the weights in a way that amplifies any difference.
float GradientOf(float weight, Step step, SlotIndex slot, std::uint64_t element) {
  const Random4 r = Philox(7, element, step.value * 1000 + slot);
  return (UnitFloat(r[0]) - 0.5F) * 2.0F + weight * (UnitFloat(r[1]) - 0.3F);
}

struct WorkerProcess {
  std::uint64_t node = 0;
  std::string name;
  std::unique_ptr<Session> session;
  std::vector<float> weights;
  bool has_work = false;
  client::Work work;
  std::vector<bool> arrived;
  Instant busy_until{};
  bool idle_call_due = true;
  bool exited = false;
  Instant paused_until{};
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options), random_(options.seed, 1), config_(MakeConfig(options)), tensors_(MakeCatalog(options)) {
    catalog_ = std::make_unique<Catalog>(std::move(Catalog::Create(tensors_, options.block_elements)).value());
    StartCoordinator();
    for (std::uint32_t i = 0; i < options.shards; ++i) {
      shards_.emplace_back();
      shard_lives_.push_back(0);
      StartShard(i);
    }
    for (std::uint32_t i = 0; i < options.workers; ++i) StartWorker("w" + std::to_string(i));
  }

  Outcome Run() {
    while (outcome_.violation.empty() && now_ < options_.give_up_after) {
      const Instant next_tick = last_tick_ + 25 * kMillisecond;
      if (!queue_.empty() && queue_.top().at <= next_tick) {
        Deliver();
      } else {
        now_ = next_tick;
        last_tick_ = next_tick;
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

  // ---- processes
  void StartCoordinator() {
    server::CoordinatorOptions options;
    options.config = config_;
    options.job_file = "simulated";
    options.job = JobId{1, options_.seed};
    options.block_elements = options_.block_elements;
    coordinator_ = std::make_unique<server::Coordinator>(std::move(options), &log_,
                                                         std::make_shared<monitoring::CoordinatorMetrics>(), now_);
  }

  void StartShard(std::uint32_t index) {
    server::ShardOptions options;
    options.shard = index;
    options.shard_count = options_.shards;
    options.incarnation = Incarnation{++shard_lives_[index]};
    options.endpoint = "shard-" + std::to_string(index);
    options.coordinator = PeerId{kCoordinator};
    options.mode = options_.mode;
    options.seed = 5;
    options.config_hash = HashJobConfig(config_);
    options.optimizer = server::MakeOptimizerRule(config_.optimizer);
    options.window_blocks = options_.window_blocks;
    options.block_elements = options_.block_elements;
    shards_[index] = std::make_unique<server::Shard>(std::move(options), std::make_shared<monitoring::ShardMetrics>());
  }

  void StartWorker(const std::string& name) {
    WorkerProcess worker;
    worker.node = 1000 + ++worker_lives_;
    worker.name = name;
    client::SessionOptions options;
    options.name = name;
    options.nonce = worker.node;
    options.coordinator = PeerId{kCoordinator};
    options.block_elements = options_.block_elements;
    options.initial_credit = 1 + static_cast<std::uint32_t>(random_.Below(20));
    options.first_retry = 200 * kMillisecond;
    options.connect = [](const std::string& endpoint) { return PeerId{100 + std::stoull(endpoint.substr(6))}; };
    worker.session = std::make_unique<Session>(std::move(options));
    worker.weights.assign(catalog_->element_count(), NAN);
    workers_[worker.node] = std::move(worker);
  }

  // ---- network
  void Send(std::uint64_t from, const Outbox& outbox) {
    for (const Envelope& envelope : outbox.envelopes) {
      ++outcome_.messages;
      if (!Calm() && Chance(options_.loss)) {
        ++outcome_.lost;
        continue;
      }
      Enqueue(from, envelope);
      if (!Calm() && Chance(options_.duplication)) {
        ++outcome_.doubled;
        Enqueue(from, envelope);
      }
    }
  }

  void Enqueue(std::uint64_t from, const Envelope& envelope) {
    Instant delay = Instant(static_cast<std::int64_t>(random_.Below(3'000'000)));
    if (!Calm() && Chance(options_.late)) delay += Instant(static_cast<std::int64_t>(random_.Below(3'000'000'000)));
    queue_.push({now_ + delay, ++order_, from, envelope.to.value, envelope.message});
  }

  void Deliver() {
    const Delivery delivery = queue_.top();
    queue_.pop();
    now_ = std::max(now_, delivery.at);
    Outbox out;
    const PeerId from{delivery.from};
    if (delivery.to == kCoordinator) {
      if (!coordinator_) return;
      coordinator_->Handle(from, delivery.message, now_, &out);
      CollectRecords();
    } else if (delivery.to >= 1000) {
      const auto worker = workers_.find(delivery.to);
      if (worker == workers_.end()) return;
      if (worker->second.paused_until > now_) {  // what arrives waits in the socket
        queue_.push({worker->second.paused_until, ++order_, delivery.from, delivery.to, delivery.message});
        return;
      }
      worker->second.session->Handle(from, delivery.message, now_, &out);
      Send(delivery.to, out);
      RunApplication(&worker->second);
      return;
    } else if (delivery.to >= 100) {
      const std::size_t index = delivery.to - 100;
      if (index >= shards_.size() || !shards_[index]) return;
      server::Shard& shard = *shards_[index];
      shard.Handle(from, delivery.message, now_, &out);
      if (Chance(0.7)) shard.Flush(&out);  // batches differ
    }
    Send(delivery.to, out);
    CheckInvariants();
  }

  void TickAll() {
    Outbox out;
    if (coordinator_) {
      coordinator_->Tick(now_, &out);
      CollectRecords();
      Send(kCoordinator, out);
    }
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i]) continue;
      out.Clear();
      shards_[i]->Flush(&out);
      shards_[i]->Tick(now_, &out);
      Send(100 + i, out);
    }
    std::vector<std::uint64_t> nodes;
    for (const auto& [node, worker] : workers_) nodes.push_back(node);
    for (std::uint64_t node : nodes) {
      if (workers_[node].paused_until > now_) continue;
      out.Clear();
      workers_[node].session->Tick(now_, &out);
      Send(node, out);
      RunApplication(&workers_[node]);
    }
    if (!Calm()) InjectFaults();
    RestartTheDead();
  }

  void InjectFaults() {
    constexpr double kTick = 0.025;
    if (coordinator_ && Chance(options_.coordinator_crashes * kTick)) {
      coordinator_.reset();
      ++outcome_.crashes;
    }
    for (auto& shard : shards_) {
      if (shard && Chance(options_.shard_crashes * kTick)) {
        shard.reset();
        ++outcome_.crashes;
      }
    }
    if (!workers_.empty() && Chance(options_.worker_crashes * kTick)) KillWorker(true);
    if (!workers_.empty() && Chance(options_.worker_pauses * kTick)) {
      RandomWorker()->second.paused_until = now_ + Instant(static_cast<std::int64_t>(random_.Below(9'000'000'000)));
      ++outcome_.pauses;
    }
    if (Chance(options_.joins_and_leaves * kTick)) {
      if (workers_.size() > 1 && Chance(0.5)) {
        Leave();
      } else if (workers_.size() < 6) {
        StartWorker("extra" + std::to_string(random_.Below(4)));
      }
    }
  }

  std::map<std::uint64_t, WorkerProcess>::iterator RandomWorker() {
    auto it = workers_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.Below(workers_.size())));
    return it;
  }

  void KillWorker(bool comes_back) {
    const auto victim = RandomWorker();
    ++outcome_.crashes;
    if (comes_back)
      dead_workers_.push_back(
          {victim->second.name, now_ + Instant(static_cast<std::int64_t>(random_.Below(2'000'000'000)))});
    workers_.erase(victim);
  }

  void Leave() {
    const auto worker = RandomWorker();
    Outbox out;
    worker->second.session->Leave("moved on", &out);
    Send(worker->first, out);
    workers_.erase(worker);
  }

  void RestartTheDead() {
    if (!coordinator_ && (Calm() || Chance(0.05))) StartCoordinator();
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i] && (Calm() || Chance(0.05))) StartShard(i);
    }
    for (auto it = dead_workers_.begin(); it != dead_workers_.end();) {
      if (it->second > now_ && !Calm()) {
        ++it;
        continue;
      }
      StartWorker(it->first);
      it = dead_workers_.erase(it);
    }
    std::erase_if(workers_, [](const auto& entry) { return entry.second.exited; });
    if (workers_.empty()) StartWorker("w0");
  }

  // ---- the application on a worker
  void RunApplication(WorkerProcess* worker) {
    for (Session::Event& event : worker->session->TakeEvents()) {
      std::visit([&](auto& body) { OnEvent(worker, body); }, event);
    }
    Outbox out;
    if (worker->has_work && now_ >= worker->busy_until &&
        std::all_of(worker->arrived.begin(), worker->arrived.end(), [](bool yes) { return yes; })) {
      Compute(worker, &out);
      worker->has_work = false;
      worker->idle_call_due = true;
    }
    if (!worker->has_work && (worker->idle_call_due || Chance(0.05))) {  // more than once is once
      worker->idle_call_due = false;
      worker->session->Ready(now_, &out);
    }
    Send(worker->node, out);
  }

  void OnEvent(WorkerProcess* worker, Session::JobFile&) {
    client::Declaration declaration;
    declaration.catalog = tensors_;
    declaration.mode = options_.mode;
    declaration.steps = options_.steps;
    declaration.numeric_class = "simulated";
    Outbox out;
    worker->session->Declare(std::move(declaration), now_, &out);
    Send(worker->node, out);
  }
  void OnEvent(WorkerProcess*, Session::Joined&) {}
  void OnEvent(WorkerProcess* worker, Session::WorkReady& ready) {
    worker->has_work = true;
    worker->work = std::move(ready.work);
    worker->arrived.assign(catalog_->blocks().size(), ready.weights_held);
    worker->busy_until = now_ + Instant(static_cast<std::int64_t>(random_.Below(60'000'000)));
  }
  void OnEvent(WorkerProcess* worker, Session::WeightsArrived& arrived) {
    if (!worker->has_work) {
      outcome_.violation = "weights arrived for nobody";
      return;
    }
    const Block& block = catalog_->blocks()[arrived.block];
    std::memcpy(worker->weights.data() + block.flat_offset, arrived.payload.data, arrived.payload.size);
    worker->arrived[arrived.block] = true;
  }
  void OnEvent(WorkerProcess* worker, Session::WorkVoid& ended) {
    if (!worker->has_work || worker->work.round != ended.round) return;
    worker->has_work = false;
    worker->idle_call_due = true;
  }
  void OnEvent(WorkerProcess* worker, Session::Finished&) { worker->exited = true; }
  void OnEvent(WorkerProcess* worker, Session::Failed& failed) {
    worker->exited = true;
    // A worker of a former life under the same name is told to go; nothing else may fail.
    if (failed.status.code() != Code::kRefused) outcome_.violation = "a worker failed: " + failed.status.message();
  }

  void Compute(WorkerProcess* worker, Outbox* out) {
    const client::Work& work = worker->work;
    SlotSums sums(work.slots, work.slot_count);
    for (SlotIndex slot : work.slots) {
      const std::uint64_t samples = SamplesOf(options_, work.step, slot);
      BufferRef gradient = pool_->Take();
      for (std::uint64_t i = 0; i < catalog_->element_count(); ++i) {
        gradient.As<float>()[i] = GradientOf(worker->weights[i], work.step, slot, i);
      }
      sums.BeginSlot(samples, std::move(gradient));
      sums.RangeReady(0, catalog_->element_count());
    }
    for (std::size_t i = catalog_->blocks().size(); i-- > 0;) {
      const Block& block = catalog_->blocks()[i];
      for (const SlotSums::Part& part : sums.parts()) {
        Slice payload;
        if (part.gradient) {
          payload = {part.gradient, part.gradient->data() + block.flat_offset * sizeof(float),
                     block.count * sizeof(float)};
        }
        const std::uint64_t hash = part.gradient ? Hash64(payload.bytes()) : 0;
        worker->session->Push(work.round, part.node, static_cast<BlockIndex>(i), part.samples, hash, std::move(payload),
                              now_, out);
      }
    }
    for (SlotIndex slot : work.slots) {
      SlotReport report;
      report.slot = slot;
      report.samples = SamplesOf(options_, work.step, slot);
      report.loss_sum = static_cast<double>(slot) + static_cast<double>(work.step.value);
      report.predictions = report.samples;
      worker->session->EndSlot(work.round, report, now_, out);
    }
  }

  // ---- checks
  void CollectRecords() {
    for (server::StepRecord& record : coordinator_->TakeRecords()) outcome_.records.push_back(std::move(record));
  }

  void CheckInvariants() {
    std::uint64_t lowest = UINT64_MAX, highest = 0;
    for (const auto& shard : shards_) {
      if (!shard) continue;
      if (shard->hash_mismatches() != 0) outcome_.violation = "one slot was computed with two results";
      if (options_.mode != Mode::kSync || !shard->serving() || !coordinator_) continue;
      if (shard->generation() != coordinator_->generation() ||
          coordinator_->state() != server::Coordinator::State::kRunning)
        continue;
      lowest = std::min(lowest, shard->version().value);
      highest = std::max(highest, shard->version().value);
      if (const auto& commit = shard->last_commit()) CheckCommit(*commit);
    }
    if (lowest != UINT64_MAX && highest - lowest > 1) outcome_.violation = "shards differ by more than one step";
  }

  // All Commits of one (generation, step) are equal but for the term.
  void CheckCommit(Commit commit) {
    commit.term = {};
    const auto [known, added] = commits_.try_emplace({commit.generation, commit.step}, commit);
    if (!added && !(known->second == commit)) outcome_.violation = "two different commits of one step";
  }

  bool Done() const {
    if (!coordinator_) return false;
    if (coordinator_->state() != server::Coordinator::State::kFinished) return false;
    return std::all_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
      return shard && shard->serving() && shard->generation() == coordinator_->generation() &&
             shard->version().value == options_.steps;
    });
  }

  void Finish() {
    outcome_.finished = outcome_.violation.empty() && Done();
    outcome_.ended_at = now_;
    if (coordinator_) outcome_.generations = coordinator_->generation().value;
    if (!outcome_.finished) {
      if (outcome_.violation.empty()) {
        outcome_.violation =
            "not finished; waiting for " + (coordinator_ ? coordinator_->WaitingFor(now_) + " (state " +
                                                               std::to_string(static_cast<int>(coordinator_->state())) +
                                                               ", " + coordinator_->failure() + ")"
                                                         : std::string("a coordinator"));
        for (const auto& shard : shards_) {
          outcome_.violation += "; shard at version " + std::to_string(shard ? shard->version().value : 0) +
                                " of generation " + std::to_string(shard ? shard->generation().value : 0);
        }
        for (const auto& [node, worker] : workers_) {
          outcome_.violation += "; " + worker.name + " waits for " + worker.session->WaitingFor();
        }
      }
      return;
    }
    if (options_.mode == Mode::kAsync) CheckEveryPushCountedOnce();
    outcome_.weights.assign(catalog_->element_count(), NAN);
    for (const auto& shard : shards_) {
      for (std::size_t local = 0; local < shard->store().size(); ++local) {
        const Block& block = catalog_->blocks()[shard->store().blocks()[local]];
        const Slice weights = shard->store().Weights(local);
        std::memcpy(outcome_.weights.data() + block.flat_offset, weights.data, weights.size);
      }
    }
  }

  void CheckEveryPushCountedOnce() {
    std::uint64_t wanted = 0;
    for (std::uint64_t step = 0; step < options_.steps; ++step) {
      for (SlotIndex slot = 0; slot < options_.slots; ++slot)
        wanted += SamplesOf(options_, Step{step}, slot) > 0 ? 1 : 0;
    }
    for (const auto& shard : shards_) {
      for (std::size_t local = 0; local < shard->store().size(); ++local) {
        if (shard->updates(local) != wanted) {
          outcome_.violation =
              "a block has " + std::to_string(shard->updates(local)) + " updates, not " + std::to_string(wanted);
        }
      }
    }
  }

  const ClusterOptions options_;
  RandomStream random_;
  const JobConfig config_;
  const std::vector<TensorSpec> tensors_;
  std::unique_ptr<Catalog> catalog_;
  server::MemoryCoordinatorLog log_;
  std::unique_ptr<BufferPool> pool_ = std::make_unique<BufferPool>(4096);

  std::unique_ptr<server::Coordinator> coordinator_;
  std::vector<std::unique_ptr<server::Shard>> shards_;
  std::vector<std::uint64_t> shard_lives_;
  std::map<std::uint64_t, WorkerProcess> workers_;
  std::uint64_t worker_lives_ = 0;
  std::vector<std::pair<std::string, Instant>> dead_workers_;

  std::priority_queue<Delivery, std::vector<Delivery>, std::greater<>> queue_;
  std::uint64_t order_ = 0;
  Instant now_{}, last_tick_{};
  std::map<std::pair<Generation, Step>, Commit> commits_;
  Outcome outcome_;
};

}  // namespace

Outcome RunCluster(const ClusterOptions& options) { return Cluster(options).Run(); }

}  // namespace capstan::sim
