// A shard that acknowledges durably: it logs, then applies, then acknowledges an admitted push; and what it finds
// after a restart.
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

ShardHarnessOptions Durable(SlotIndex slots = 2, std::vector<std::int64_t> tensors = {4}) {
  ShardHarnessOptions options;
  options.mode = Mode::kAsync;
  options.slots = slots;
  options.tensors = std::move(tensors);
  options.acknowledge = Acknowledge::kDurable;
  return options;
}

// Makes a Reset that continues the timeline.
Reset GoOn(const ShardHarness& harness, std::uint64_t generation, std::uint64_t timeline = 1) {
  Reset reset = harness.MakeReset(generation);
  reset.timeline = TimelineId{timeline};
  return reset;
}

std::uint64_t ReplayOf(ShardHarness* harness, Reset reset) {
  harness->FromCoordinator(std::move(reset));
  harness->generation = harness->shard->generation();
  CHECK(harness->Take<ResetDone>(kCoordinator).size() == 1);
  return harness->metrics->log_replayed.value();
}

TEST_CASE("durable: a push is applied and acknowledged when it is in the log, not before", "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().HoldLog();
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(1, 0));
  CHECK(harness.Take<Staged>().empty());
  CHECK(harness.WeightOf(0) == 0.0F);
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{0}, {0}});
  harness.LetLogGo();
  CHECK(harness.WeightOf(0) == -1.0F);
  const std::vector<Staged> staged = harness.Take<Staged>();
  REQUIRE(staged.size() == 2);
  CHECK(staged[0].nodes == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(staged[1].ended == std::vector<SlotIndex>{0});
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{1}, {0}});
  CHECK(harness.metrics->log_records.value() == 2);
  CHECK(harness.metrics->log_append_seconds.count() == 2);
}

TEST_CASE("durable: what comes during an append goes into the next one, together", "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().HoldLog();
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  harness.Stage(1, 0, kLeaf1, 1, 1.0F);
  REQUIRE(harness.waiting_log_work.size() == 1);
  CHECK(std::get<AppendLog>(harness.waiting_log_work[0]).records->size() == 1);
  harness.LetLogGo();
  CHECK(harness.WeightOf(0) == -3.0F);
  CHECK(harness.shard->journal()->applied_records() == 3);
  CHECK(harness.metrics->log_append_seconds.count() == 2);
}

TEST_CASE("durable: a push that is being logged is ignored when it comes again; gaps count behind it",
          "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().HoldLog();
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.Stage(1, 0, kLeaf0, 1, 7.0F, kOther);
  CHECK(harness.Silent());
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  const std::vector<Error> errors = harness.Take<Error>();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].last == SequenceNumber{1});
  harness.LetLogGo();
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Take<Staged>(kOther).empty());
  harness.Stage(1, 0, kLeaf0, 1, 7.0F, kOther);
  CHECK(harness.Take<Staged>(kOther).at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("durable: a push is applied with the parameters of its arrival", "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().HoldLog();
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  StepParameters parameters;
  parameters.learning_rate = 0.5F;
  harness.FromCoordinator(ClockUpdate{Term{1}, Generation{1}, SequenceNumber{1}, parameters});
  harness.LetLogGo();
  CHECK(harness.WeightOf(0) == -1.0F);
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -1.5F);
}

TEST_CASE("durable: an append that fails is said, and nothing of it is applied or acknowledged", "[server][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = Durable();
  options.log = &log;
  ShardHarness harness(options);
  harness.Start();
  log.FailWrites(Unreachable("the disk is full"));
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Staged>().empty());
  CHECK(harness.Take<Error>().at(0).code == Code::kBusy);  // its sender is told the reason
  CHECK(harness.Silent());
  CHECK(harness.WeightOf(0) == 0.0F);
  REQUIRE(!harness.notices().empty());
  CHECK(harness.notices().back().severity == Severity::kError);
  CHECK(harness.notices().back().text.find("shard 0 cannot write to its log: the disk is full") == 0);
  CHECK(harness.metrics->log_failures.value() == 1);
  log.FailWrites({});
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.Take<Staged>().size() == 1);
}

TEST_CASE("durable: a log that is behind turns pushes away for now", "[server][durable]") {
  ShardHarnessOptions options = Durable();
  options.log_records_max = 2;
  ShardHarness harness(options);
  harness.Start().HoldLog();
  for (std::uint64_t k : {1U, 2U, 3U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Silent());
  harness.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Refused(Code::kBusy));
  harness.LetLogGo();
  harness.Stage(4, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -4.0F);
}

TEST_CASE("durable: a shard that lives keeps all it has in the next generation of its timeline", "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.HoldLog();
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  harness.Forget();
  harness.FromCoordinator(GoOn(harness, 2));
  CHECK(harness.Take<ResetDone>(kCoordinator).at(0).generation == Generation{2});
  CHECK(harness.shard->timeline() == TimelineId{1});
  CHECK(harness.WeightOf(0) == -1.0F);
  CHECK(harness.metrics->log_replayed.value() == 0);
  harness.LetLogGo();  // a push of the earlier generation is as good; no worker waits for its acknowledgement
  CHECK(harness.WeightOf(0) == -2.0F);
  CHECK(harness.Take<Staged>().empty());
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Refused(Code::kStale));
  harness.generation = Generation{2};
  harness.Stage(3, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("durable: it says so when its new generation is on disk, however often it is asked", "[server][durable]") {
  ShardHarness harness(Durable());
  harness.Start().HoldDisk();
  harness.FromCoordinator(GoOn(harness, 2));
  harness.FromCoordinator(GoOn(harness, 2));
  CHECK(harness.Take<ResetDone>(kCoordinator).empty());
  harness.LetDiskGo();
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  harness.FromCoordinator(GoOn(harness, 2));
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
}

TEST_CASE("durable: a lost shard finds every logged push again, with the same bits", "[server][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = Durable(2, {4, 4});
  options.optimizer = OptimizerKind::kAdamW;
  options.log = &log;
  std::uint64_t digest = 0;
  {
    ShardHarness harness(options);
    harness.Start();
    for (std::uint64_t k = 1; k <= 4; ++k) {
      for (BlockIndex block : {0U, 1U}) {
        harness.Stage(k, block, kLeaf0, 1, 0.5F);
        harness.Stage(k, block, kLeaf1, k % 2, 2.0F);
      }
      harness.FromWorker(harness.MakeEnd(k, 0));
    }
    digest = harness.shard->store().Digest();
  }
  ShardHarness harness(options);
  CHECK(ReplayOf(&harness, GoOn(harness, 2)) == 20);
  CHECK(harness.shard->store().Digest() == digest);
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{4}, {0}});  // slot 1 has not ended
  harness.Tick(std::chrono::milliseconds(20));
  CHECK(harness.Take<Progress>(kCoordinator).at(0).reports.size() == 4);
  harness.Stage(5, 0, kLeaf0, 1, 0.5F);
  CHECK(harness.shard->journal()->applied_records() == 21);
}

TEST_CASE("durable: a snapshot stands for the log in front of it", "[server][durable]") {
  MemoryPushLog log;
  MemorySnapshotStore disk;
  ShardHarnessOptions options = Durable();
  options.log = &log;
  std::vector<SnapshotPart> parts;
  const SnapshotId id{Generation{1}, Version{0}};
  {
    ShardHarness harness(options);
    harness.Start();
    for (std::uint64_t k : {1U, 2U, 3U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
    harness.FromCoordinator(harness.MakePin(0));
    harness.Stage(4, 0, kLeaf0, 1, 1.0F);
    CHECK(log.size() == 4);  // the snapshot may never exist
    harness.FromCoordinator(harness.MakeRetained({id}, id));
    CHECK(log.size() == 1);
    parts = harness.disk.List();
    disk.AddPartsOf(harness.disk);
  }
  options.found = &disk;
  ShardHarness harness(options);
  Reset reset = harness.MakeResetTo(2, parts);
  reset.timeline = TimelineId{1};
  CHECK(ReplayOf(&harness, reset) == 1);
  CHECK(harness.WeightOf(0) == -4.0F);
}

TEST_CASE("durable: records that a snapshot holds already are passed over", "[server][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = Durable();
  options.log = &log;
  ShardHarness(options).Start();
  std::vector<PushLogRecord> records;
  const float ones[4] = {1, 1, 1, 1};
  for (std::uint64_t sequence : {1U, 1U, 2U}) {
    PushRecord push;
    push.sequence = {sequence};
    push.samples = 1;
    push.learning_rate = 1.0F;
    push.payload = {BufferRef(), reinterpret_cast<const std::byte*>(ones), sizeof ones};
    records.push_back(push);
  }
  REQUIRE(log.Append(TimelineId{1}, 1, records).ok());
  ShardHarness harness(options);
  CHECK(ReplayOf(&harness, GoOn(harness, 2)) == 3);
  CHECK(harness.WeightOf(0) == -2.0F);
  CHECK(harness.shard->engine().updates(0) == 2);
}

TEST_CASE("durable: a log that cannot go on is a bad Reset, and the next generation is served", "[server][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = Durable();
  options.log = &log;
  {
    ShardHarness harness(options);
    harness.Start();
    for (std::uint64_t k : {1U, 2U, 3U}) harness.Stage(k, 0, kLeaf0, 1, 1.0F);
  }
  std::string reason;
  const auto after = [&](auto damage) {
    damage();
    ShardHarness harness(options);
    harness.FromCoordinator(GoOn(harness, 2));
    const std::vector<ResetBad> bad = harness.Take<ResetBad>(kCoordinator);
    REQUIRE(bad.size() == 1);
    reason = bad[0].reason;
    CHECK(!harness.shard->serving());
    harness.FromCoordinator(harness.MakeReset(3));
    CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
    CHECK(harness.WeightOf(0) == 0.0F);
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
  SECTION("it is of another timeline") {
    after([&] { REQUIRE(log.Begin({TimelineId{9}, 1}).ok()); });
    CHECK(reason.find("timeline that began with generation 9") != std::string::npos);
  }
  SECTION("it is of another number of shards") {
    after([&] { REQUIRE(log.Begin({TimelineId{1}, 3}).ok()); });
    CHECK(reason.find("one of 3 shards, the job has 1") != std::string::npos);
  }
  SECTION("a push follows none") {
    PushRecord push;
    push.sequence = {9};
    after([&] { REQUIRE(log.Append(TimelineId{1}, 4, {push}).ok()); });
    CHECK(reason.find("sequence number 9 after 3") != std::string::npos);
  }
  SECTION("a push does not belong here") {
    PushRecord push;
    push.block = 77;
    after([&] { REQUIRE(log.Append(TimelineId{1}, 4, {push}).ok()); });
    CHECK(reason.find("block 77") != std::string::npos);
  }
}

TEST_CASE("durable: a timeline that begins has an empty log; while it cannot begin, nothing is served",
          "[server][durable]") {
  MemoryPushLog log;
  ShardHarnessOptions options = Durable();
  options.log = &log;
  ShardHarness harness(options);
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  log.FailWrites(Unreachable("the disk is full"));
  harness.FromCoordinator(harness.MakeReset(2));
  CHECK(harness.Take<ResetDone>(kCoordinator).empty());
  CHECK(!harness.shard->serving());
  CHECK(harness.notices().back().text.find("cannot begin its log: the disk is full; it tries again") !=
        std::string::npos);
  log.FailWrites({});
  harness.Tick(std::chrono::seconds(10));
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.shard->timeline() == TimelineId{2});
  CHECK(log.size() == 0);
  CHECK(harness.WeightOf(0) == 0.0F);
}

TEST_CASE("received: a timeline that goes on is refused by a shard that keeps no log", "[server][durable]") {
  ShardHarnessOptions options = Durable();
  options.acknowledge = Acknowledge::kReceived;
  ShardHarness harness(options);
  harness.Start().Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromCoordinator(GoOn(harness, 2));
  CHECK(harness.Take<ResetBad>(kCoordinator).size() == 1);
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("durable, bounded: a pull waits for what is on disk", "[server][durable]") {
  ShardHarnessOptions options = Durable(2);
  options.mode = Mode::kBounded;
  ShardHarness harness(options);
  harness.Start().FromWorker(harness.MakePull(1, {0}));
  CHECK(harness.Silent());
  harness.HoldLog();
  for (Node leaf : {kLeaf0, kLeaf1}) {
    harness.Stage(1, 0, leaf, 1, 1.0F);
    harness.FromWorker(harness.MakeEnd(1, leaf.begin), {}, kOther);
  }
  CHECK(harness.Take<Weights>(kWorker).empty());
  harness.LetLogGo();
  CHECK(harness.Take<Weights>(kWorker).size() == 1);
}

}  // namespace
}  // namespace capstan::server
