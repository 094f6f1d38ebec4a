// CoordinatorHarness: one coordinator with its log, and methods that act as shards and workers.
//
// Kind:   a value of one test.
// Why:    here a shard is only its Hello, so a test can set the state that a coordinator finds.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/config/job_config.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator.h"

namespace capstan {
struct Prepared;
struct SnapshotDone;
struct View;
}  // namespace capstan

namespace capstan::server {

inline bool IsNamed(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

class CoordinatorHarness {
 public:
  struct FakeShard {
    PeerId peer;
    Hello hello;
  };

  // There are two tensors, and each is one block and one segment. With two shards, each shard has one of them.
  static constexpr std::uint32_t kBlockElements = 4;
  static constexpr PeerId kStranger{9};

  explicit CoordinatorHarness(std::uint32_t shard_count = 2, std::uint32_t workers = 2, Mode mode = Mode::kSync);

  // Starts a coordinator on the log. The one before, if any, is destroyed.
  void Live() {
    Forget();
    for (FakeShard& shard : shards) shard.hello.config_hash = HashJobConfig(config);
    CoordinatorOptions options;
    options.config = config;
    options.job_file = PrintJobConfig(config);
    options.job = JobId{1, 2};
    options.block_elements = kBlockElements;
    options.accept_rollback = options.accept_loss = accept_rollback;
    options.draw_secret = [this] { return draw_secret(); };
    coordinator = std::make_unique<Coordinator>(std::move(options), &log, metrics, now);
  }
  void Send(PeerId from, Header header, const Principal& sender = {}) {
    coordinator->Handle(from, sender, {std::move(header), {}}, now, &out_);
  }
  void Tick(Instant later = {}) {
    now += later;
    coordinator->Tick(now, &out_);
  }
  void Conclude() { coordinator->Conclude(&out_); }
  void WorkerDies(const std::string& name) { coordinator->WorkerDied(name, now, &out_); }
  // Lets time pass, with a Tick every half second. The workers in `alive` send Heartbeats, so they keep their leases.
  void Pass(Instant time, const std::vector<Join>& alive = {}) {
    constexpr Instant kEvery = std::chrono::milliseconds(500);
    for (Instant passed{}; passed < time; passed += kEvery) {
      for (const Join& join : alive) Send(PeerOf(join), MakeHeartbeat(join));
      Tick(kEvery);
    }
  }
  template <class T>
  std::vector<T> Take(PeerId to) {
    std::vector<T> taken;
    std::erase_if(out_.envelopes, [&](const Envelope& envelope) {
      const T* body = envelope.message.header.As<T>();
      if (envelope.to != to || body == nullptr) return false;
      taken.push_back(*body);
      return true;
    });
    return taken;
  }
  template <class T>
  std::vector<T> TakeFromShard(ShardIndex shard) {
    return Take<T>(shards[shard].peer);
  }
  template <class T>
  std::size_t Count() const {
    std::size_t count = 0;
    for (const Envelope& envelope : out_.envelopes) count += envelope.message.header.Is<T>() ? 1 : 0;
    return count;
  }
  void Forget() { out_ = {}; }
  const Outbox& out() const { return out_; }
  std::string Notices() const {
    std::string all;
    for (const Notice& notice : out_.notices) all += notice.text + "\n";
    return all;
  }

  // ---- workers
  static std::vector<TensorSpec> Tensors() {
    return {{"a", {4}, {InitKind::kZeros, 0.0F}, true}, {"b", {2, 2}, {InitKind::kZeros, 0.0F}, true}};
  }
  // Makes the Join of a worker. Each `nonce` is another process of that worker, with a peer of its own (PeerOf).
  Join MakeJoin(const std::string& name, std::uint64_t nonce = 1) const {
    return {{}, name, nonce, "class", 3, 4, Tensors(), 0, 0, {}, {}};
  }
  static PeerId PeerOf(const Join& join) {
    return PeerId{1000 + static_cast<std::uint64_t>(join.worker.back()) * 100 + join.nonce};
  }
  Join Joins(const std::string& name, std::uint64_t nonce = 1) {
    Join join = MakeJoin(name, nonce);
    Send(PeerOf(join), join);
    return join;
  }
  // Returns the newest View sent to a worker since the last call; a default View if there is none.
  View ViewOf(const Join& join);
  Heartbeat MakeHeartbeat(const Join& join);
  // Returns the Heartbeat of a worker that is in this step of generation 1.
  Heartbeat MakeHeartbeat(const Join& join, std::uint64_t step, bool computing);
  Leave MakeLeave(const Join& join);

  // ---- shards
  void SendHello(ShardIndex shard) { Send(shards[shard].peer, shards[shard].hello); }
  // Makes every shard answer with the new term.
  void ShardsEchoTerm() {
    for (ShardIndex i = 0; i < shards.size(); ++i) {
      shards[i].hello.term = coordinator->term();
      SendHello(i);
    }
  }
  void AnswerReset(ShardIndex shard);
  // Starts a job with workers "w0", "w1", ... and lets it run.
  void Run();
  Prepared MakePrepared(ShardIndex shard, std::uint64_t step, double square = 1.0, std::uint32_t attempt = 0) const;
  void Prepares(ShardIndex shard, std::uint64_t step, double square = 1.0, std::uint32_t attempt = 0) {
    shards[shard].hello.prepared = MakePrepared(shard, step, square, attempt);
    Send(shards[shard].peer, *shards[shard].hello.prepared);
  }
  void Commits(ShardIndex shard, const Commit& commit);
  // Does a whole step, on all shards.
  void DoStep(std::uint64_t step);
  // Restarts a shard: a new process takes over its index, with these parts in its directory.
  void RestartShard(ShardIndex shard, std::vector<SnapshotPart> parts) {
    Hello& hello = shards[shard].hello;
    hello.incarnation = Incarnation{hello.incarnation.value + 10};
    hello.serving = false;
    hello.version = {};
    hello.last_commit.reset();
    hello.prepared.reset();
    hello.parts = std::move(parts);
    hello.term = coordinator->term();
    SendHello(shard);
  }
  SnapshotDone MakeDone(ShardIndex shard, std::uint64_t version) const;
  static std::uint64_t DigestOf(SnapshotId id, ShardIndex part) {
    return id.generation.value * 10000 + id.version.value * 100 + part;
  }
  static SnapshotPart PartOf(SnapshotId id, ShardIndex part) { return {id, part, DigestOf(id, part)}; }
  void Keeps(ShardIndex shard, std::uint64_t version);
  template <class T>
  std::vector<T> Logged() const {
    std::vector<T> records;
    for (const LogRecord& record : log.records()) {
      if (const T* body = std::get_if<T>(&record)) records.push_back(*body);
    }
    return records;
  }

  EditableJobConfig config;
  MemoryCoordinatorLog log;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics = std::make_shared<monitoring::CoordinatorMetrics>();
  bool accept_rollback = false;  // for the next coordinator
  std::function<std::uint64_t()> draw_secret = [this] { return secrets_.Next64(); };
  std::unique_ptr<Coordinator> coordinator;
  std::vector<FakeShard> shards;
  Instant now = std::chrono::seconds(1000);

 private:
  RandomStream secrets_{7};
  std::map<PeerId, SessionId> sessions_;
  Outbox out_;
};

}  // namespace capstan::server
