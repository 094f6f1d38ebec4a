// A shard that acknowledges durably: it logs, then applies, then acknowledges an admitted push; and what it finds
// after a restart.
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

ShardBenchOptions Durable(SlotIndex slots = 2, std::vector<std::int64_t> tensors = {4}) {
  ShardBenchOptions options;
  options.mode = Mode::kAsync;
  options.slots = slots;
  options.tensors = std::move(tensors);
  options.acknowledge = Acknowledge::kDurable;
  return options;
}

// Makes a Reset that continues the timeline.
Reset GoOn(const ShardBench& bench, std::uint64_t generation, std::uint64_t history = 1) {
  Reset reset = bench.MakeReset(generation);
  reset.history = Generation{history};
  return reset;
}

std::uint64_t ReplayOf(ShardBench* bench, Reset reset) {
  bench->FromCoordinator(std::move(reset));
  bench->generation = bench->shard->generation();
  CHECK(bench->Take<ResetDone>(kCoordinator).size() == 1);
  return bench->metrics->log_replayed.value();
}

TEST_CASE("durable: a push is applied and acknowledged when it is in the log, not before", "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().HoldLog();
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(1, 0));
  CHECK(bench.Take<Staged>().empty());
  CHECK(bench.WeightOf(0) == 0.0F);
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{0, 0});
  bench.LetLogGo();
  CHECK(bench.WeightOf(0) == -1.0F);
  const std::vector<Staged> staged = bench.Take<Staged>();
  REQUIRE(staged.size() == 2);
  CHECK(staged[0].held == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(staged[1].ended == std::vector<SlotIndex>{0});
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{1, 0});
  CHECK(bench.metrics->log_records.value() == 2);
  CHECK(bench.metrics->log_append_seconds.count() == 2);
}

TEST_CASE("durable: what comes during an append goes into the next one, together", "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().HoldLog();
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  bench.Stage(1, 0, kLeaf1, 1, 1.0F);
  REQUIRE(bench.waiting_log_work.size() == 1);
  CHECK(std::get<AppendLog>(bench.waiting_log_work[0]).records->size() == 1);
  bench.LetLogGo();
  CHECK(bench.WeightOf(0) == -3.0F);
  CHECK(bench.shard->journal()->applied_records() == 3);
  CHECK(bench.metrics->log_append_seconds.count() == 2);
}

TEST_CASE("durable: a push that is being logged is ignored when it comes again; gaps count behind it",
          "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().HoldLog();
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.Stage(1, 0, kLeaf0, 1, 7.0F, kOther);
  CHECK(bench.Silent());
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  const std::vector<Error> errors = bench.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].last == Step{1});
  bench.LetLogGo();
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.Take<Staged>(kOther).empty());
  bench.Stage(1, 0, kLeaf0, 1, 7.0F, kOther);
  CHECK(bench.Take<Staged>(kOther).at(0).held == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("durable: a push is applied with the parameters of its arrival", "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().HoldLog();
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  StepParameters parameters;
  parameters.learning_rate = 0.5F;
  bench.FromCoordinator(Rates{Term{1}, Generation{1}, Step{1}, parameters});
  bench.LetLogGo();
  CHECK(bench.WeightOf(0) == -1.0F);
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -1.5F);
}

TEST_CASE("durable: an append that fails is said, and nothing of it is applied or acknowledged", "[server][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = Durable();
  options.log = &log;
  ShardBench bench(options);
  bench.Start();
  log.FailWrites(Unreachable("the disk is full"));
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Take<Staged>().empty());
  CHECK(bench.Take<Error>().at(0).code == Code::kBusy);  // its sender is told the reason
  CHECK(bench.Silent());
  CHECK(bench.WeightOf(0) == 0.0F);
  REQUIRE(!bench.notices().empty());
  CHECK(bench.notices().back().severity == Severity::kError);
  CHECK(bench.notices().back().text.find("shard 0 cannot write to its log: the disk is full") == 0);
  CHECK(bench.metrics->log_failures.value() == 1);
  log.FailWrites({});
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.Take<Staged>().size() == 1);
}

TEST_CASE("durable: a log that is behind turns pushes away for now", "[server][durable]") {
  ShardBenchOptions options = Durable();
  options.log_records_max = 2;
  ShardBench bench(options);
  bench.Start().HoldLog();
  for (std::uint64_t k : {1U, 2U, 3U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Silent());
  bench.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Refused(Code::kBusy));
  bench.LetLogGo();
  bench.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -4.0F);
}

TEST_CASE("durable: a shard that lives keeps all it has in the next generation of its history", "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.HoldLog();
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  bench.Forget();
  bench.FromCoordinator(GoOn(bench, 2));
  CHECK(bench.Take<ResetDone>(kCoordinator).at(0).generation == Generation{2});
  CHECK(bench.shard->history() == Generation{1});
  CHECK(bench.WeightOf(0) == -1.0F);
  CHECK(bench.metrics->log_replayed.value() == 0);
  bench.LetLogGo();  // a push of the earlier generation is as good; no worker waits for its acknowledgement
  CHECK(bench.WeightOf(0) == -2.0F);
  CHECK(bench.Take<Staged>().empty());
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Refused(Code::kStale));
  bench.generation = Generation{2};
  bench.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.WeightOf(0) == -3.0F);
}

TEST_CASE("durable: it says so when its new generation is on disk, however often it is asked", "[server][durable]") {
  ShardBench bench(Durable());
  bench.Start().HoldDisk();
  bench.FromCoordinator(GoOn(bench, 2));
  bench.FromCoordinator(GoOn(bench, 2));
  CHECK(bench.Take<ResetDone>(kCoordinator).empty());
  bench.LetDiskGo();
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  bench.FromCoordinator(GoOn(bench, 2));
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
}

TEST_CASE("durable: a lost shard finds every logged push again, with the same bits", "[server][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = Durable(2, {4, 4});
  options.optimizer = OptimizerKind::kAdamW;
  options.log = &log;
  std::uint64_t digest = 0;
  {
    ShardBench bench(options);
    bench.Start();
    for (std::uint64_t k = 1; k <= 4; ++k) {
      for (BlockIndex block : {0U, 1U}) {
        bench.Stage(k, block, kLeaf0, 1, 0.5F);
        bench.Stage(k, block, kLeaf1, k % 2, 2.0F);
      }
      bench.FromWorker(bench.MakeEnd(k, 0));
    }
    digest = bench.shard->store().Digest();
  }
  ShardBench bench(options);
  CHECK(ReplayOf(&bench, GoOn(bench, 2)) == 20);
  CHECK(bench.shard->store().Digest() == digest);
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{4, 0});  // slot 1 has not ended
  bench.Tick(std::chrono::milliseconds(20));
  CHECK(bench.Take<Progress>(kCoordinator).at(0).reports.size() == 4);
  bench.Stage(5, 0, kLeaf0, 1, 0.5F);
  CHECK(bench.shard->journal()->applied_records() == 21);
}

TEST_CASE("durable: a snapshot stands for the log in front of it", "[server][durable]") {
  MemoryPushLog log;
  MemorySnapshotStore disk;
  ShardBenchOptions options = Durable();
  options.log = &log;
  std::vector<SnapshotPart> parts;
  const SnapshotId id{Generation{1}, Version{0}};
  {
    ShardBench bench(options);
    bench.Start();
    for (std::uint64_t k : {1U, 2U, 3U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
    bench.FromCoordinator(bench.MakePin(0));
    bench.Stage(4, 0, kLeaf0, 1, 1.0F);
    CHECK(log.size() == 4);  // the snapshot may never exist
    bench.FromCoordinator(bench.MakeKept({id}, id));
    CHECK(log.size() == 1);
    parts = bench.disk.List();
    disk.AddPartsOf(bench.disk);
  }
  options.found = &disk;
  ShardBench bench(options);
  Reset reset = bench.MakeResetTo(2, parts);
  reset.history = Generation{1};
  CHECK(ReplayOf(&bench, reset) == 1);
  CHECK(bench.WeightOf(0) == -4.0F);
}

TEST_CASE("durable: records that a snapshot holds already are passed over", "[server][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = Durable();
  options.log = &log;
  ShardBench(options).Start();
  std::vector<PushLogRecord> records;
  const float ones[4] = {1, 1, 1, 1};
  for (std::uint64_t sequence : {1U, 1U, 2U}) {
    PushRecord push;
    push.sequence = sequence;
    push.samples = 1;
    push.learning_rate = 1.0F;
    push.payload = {BufferRef(), reinterpret_cast<const std::byte*>(ones), sizeof ones};
    records.push_back(push);
  }
  REQUIRE(log.Append(Generation{1}, 1, records).ok());
  ShardBench bench(options);
  CHECK(ReplayOf(&bench, GoOn(bench, 2)) == 3);
  CHECK(bench.WeightOf(0) == -2.0F);
  CHECK(bench.shard->engine().updates(0) == 2);
}

TEST_CASE("durable: a log that cannot go on is a bad Reset, and the next generation is served", "[server][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = Durable();
  options.log = &log;
  {
    ShardBench bench(options);
    bench.Start();
    for (std::uint64_t k : {1U, 2U, 3U}) bench.Stage(k, 0, kLeaf0, 1, 1.0F);
  }
  std::string reason;
  const auto after = [&](auto damage) {
    damage();
    ShardBench bench(options);
    bench.FromCoordinator(GoOn(bench, 2));
    const std::vector<ResetBad> bad = bench.Take<ResetBad>(kCoordinator);
    REQUIRE(bad.size() == 1);
    reason = bad[0].reason;
    CHECK(!bench.shard->serving());
    bench.FromCoordinator(bench.MakeReset(3));
    CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
    CHECK(bench.WeightOf(0) == 0.0F);
    CHECK(log.size() == 0);
  };
  SECTION("a record is missing") {
    after([&] { log.Lose(2); });
    CHECK(reason == "record 2 of the log is missing");
  }
  SECTION("there is none") {
    after([&] { log = MemoryPushLog(); });
    CHECK(reason == "there is no log here");
  }
  SECTION("it is of another history") {
    after([&] { REQUIRE(log.Begin({Generation{9}, 1}).ok()); });
    CHECK(reason.find("history that began with generation 9") != std::string::npos);
  }
  SECTION("it is of another number of shards") {
    after([&] { REQUIRE(log.Begin({Generation{1}, 3}).ok()); });
    CHECK(reason.find("one of 3 shards, the job has 1") != std::string::npos);
  }
  SECTION("a push follows none") {
    PushRecord push;
    push.sequence = 9;
    after([&] { REQUIRE(log.Append(Generation{1}, 4, {push}).ok()); });
    CHECK(reason.find("sequence number 9 after 3") != std::string::npos);
  }
  SECTION("a push does not belong here") {
    PushRecord push;
    push.block = 77;
    after([&] { REQUIRE(log.Append(Generation{1}, 4, {push}).ok()); });
    CHECK(reason.find("block 77") != std::string::npos);
  }
}

TEST_CASE("durable: a history that begins has an empty log; while it cannot begin, nothing is served",
          "[server][durable]") {
  MemoryPushLog log;
  ShardBenchOptions options = Durable();
  options.log = &log;
  ShardBench bench(options);
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  log.FailWrites(Unreachable("the disk is full"));
  bench.FromCoordinator(bench.MakeReset(2));
  CHECK(bench.Take<ResetDone>(kCoordinator).empty());
  CHECK(!bench.shard->serving());
  CHECK(bench.notices().back().text.find("cannot begin its log: the disk is full; it tries again") !=
        std::string::npos);
  log.FailWrites({});
  bench.Tick(std::chrono::seconds(10));
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.shard->history() == Generation{2});
  CHECK(log.size() == 0);
  CHECK(bench.WeightOf(0) == 0.0F);
}

TEST_CASE("received: a history that goes on is refused by a shard that keeps no log", "[server][durable]") {
  ShardBenchOptions options = Durable();
  options.acknowledge = Acknowledge::kReceived;
  ShardBench bench(options);
  bench.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromCoordinator(GoOn(bench, 2));
  CHECK(bench.Take<ResetBad>(kCoordinator).size() == 1);
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("durable, bounded: a pull waits for what is on disk", "[server][durable]") {
  ShardBenchOptions options = Durable(2);
  options.mode = Mode::kBounded;
  ShardBench bench(options);
  bench.Start().FromWorker(bench.MakePull(1, {0}));
  CHECK(bench.Silent());
  bench.HoldLog();
  for (Node leaf : {kLeaf0, kLeaf1}) {
    bench.Stage(1, 0, leaf, 1, 1.0F);
    bench.FromWorker(bench.MakeEnd(1, leaf.begin), {}, kOther);
  }
  CHECK(bench.Take<Weights>(kWorker).empty());
  bench.LetLogGo();
  CHECK(bench.Take<Weights>(kWorker).size() == 1);
}

}  // namespace
}  // namespace capstan::server
