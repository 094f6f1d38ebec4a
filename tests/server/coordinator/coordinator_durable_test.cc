// A coordinator's reaction to the loss of a shard, with durable acknowledgements: another generation begins, and the
// shards that were not lost keep their state.
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using State = Coordinator::State;
using Parts = std::vector<SnapshotPart>;

CoordinatorHarness DurableHarness(std::uint32_t shard_count = 2) {
  CoordinatorHarness harness = Harness(shard_count, Mode::kAsync, {0, 1.0, 2});
  harness.config.job.acknowledge = Acknowledge::kDurable;
  return harness;
}

void CountTo(CoordinatorHarness* harness, std::uint64_t clock) {
  while (harness->coordinator->step().value < clock) Clocks(harness, harness->coordinator->step().value + 1);
}

// Takes a snapshot of the job's present step.
void TakeSnapshot(CoordinatorHarness* harness) {
  harness->Tick(std::chrono::seconds(2));
  const std::uint64_t version = harness->coordinator->step().value;
  for (ShardIndex i = 0; i < harness->shards.size(); ++i) harness->Keeps(i, version);
  REQUIRE(harness->coordinator->newest_snapshot().version.value == version);
  harness->Forget();
}

Parts PartsOf(const CoordinatorHarness& harness, ShardIndex shard) {
  return {Part(harness.coordinator->newest_snapshot(), shard)};
}

// Runs the job until 7 steps are counted; its newest snapshot is version 3.
void RunPastASnapshot(CoordinatorHarness* harness) {
  harness->Run();
  CountTo(harness, 3);
  TakeSnapshot(harness);
  CountTo(harness, 7);
}

// Loses server 1, which comes back with an unusable log.
void LoseLog(CoordinatorHarness* harness, const std::string& why) {
  harness->RestartShard(1, PartsOf(*harness, 1));
  const Generation generation = Resets(harness)[1].generation;
  harness->Forget();
  harness->Send(harness->shards[1].peer, ResetBad{1, harness->shards[1].hello.incarnation, generation, why});
}

TEST_CASE("async: a clock that passes a multiple of every_steps asks for a snapshot", "[server][snapshot]") {
  CoordinatorHarness harness = Harness(2, Mode::kAsync, {5, 0, 2});
  harness.Run();
  CountTo(&harness, 4);
  harness.Tick(std::chrono::milliseconds(100));
  CHECK(harness.Count<Pin>() == 0);
  CountTo(&harness, 7);  // several steps between two Ticks
  harness.Tick(std::chrono::milliseconds(100));
  CHECK(harness.Count<Pin>() == 2);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 7);
  harness.Forget();
  CountTo(&harness, 9);
  harness.Tick(std::chrono::seconds(1));
  CHECK(harness.Count<Pin>() == 0);
  CountTo(&harness, 10);
  harness.Tick(std::chrono::seconds(1));
  CHECK(harness.Count<Pin>() == 2);
}

TEST_CASE("async: a snapshot that was given up is not asked for again before the next multiple", "[server][snapshot]") {
  CoordinatorHarness harness = Harness(2, Mode::kAsync, {5, 0, 2});
  harness.Run();
  CountTo(&harness, 7);
  harness.Tick(std::chrono::milliseconds(100));
  REQUIRE(harness.Count<Pin>() == 2);
  SnapshotDone failed = harness.MakeDone(1, 7);
  failed.failure = "the disk is full";
  harness.Send(harness.shards[1].peer, failed);
  harness.Forget();
  CountTo(&harness, 9);
  harness.Tick(std::chrono::seconds(1));
  CHECK(harness.Count<Pin>() == 0);
  CountTo(&harness, 10);
  harness.Tick(std::chrono::seconds(1));
  CHECK(harness.TakeFromShard<Pin>(1).at(0).version == Version{10});
}

TEST_CASE("durable: a lost shard begins a generation in which the timeline goes on, and the clock does not fall",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.Run();
  CHECK(harness.Logged<RecoverRecord>().back().timeline == TimelineId{1});
  CountTo(&harness, 3);
  TakeSnapshot(&harness);
  CountTo(&harness, 7);
  harness.Forget();
  harness.RestartShard(1, PartsOf(harness, 1));
  CHECK(Mentions(harness.Notices(), "server 1 was lost and came back with its log"));
  CHECK(Mentions(harness.Notices(),
                 "every shard goes on where it was; what was lost comes back from the "
                 "snapshot of version 3 and the logs"));
  CHECK(!Mentions(harness.Notices(), "are lost"));
  for (const Reset& reset : Resets(&harness)) {
    CHECK(reset.generation == Generation{2});
    CHECK(reset.timeline == TimelineId{1});
    CHECK(reset.snapshot == Id(1, 3));
    CHECK(reset.parameters.updates == 7);
  }
  CHECK(harness.Logged<RecoverRecord>().back().timeline == TimelineId{1});
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{7});
  Clocks(&harness, 8);
  CHECK(harness.coordinator->step() == Step{8});
}

TEST_CASE("durable: a new coordinator that finds a lost shard counts on from what the living ones know",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.Run();
  CountTo(&harness, 5);
  harness.Live();
  harness.shards[0].hello.version = Version{5};
  harness.shards[1].hello.incarnation = Incarnation{99};
  harness.shards[1].hello.serving = false;
  harness.shards[1].hello.version = {};
  harness.ShardsEchoTerm();
  for (const Reset& reset : Resets(&harness)) CHECK(reset.timeline == TimelineId{1});
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{5});
}

TEST_CASE("durable: when all have died, the timeline goes on from the newest snapshot and the logs",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.Run();
  CountTo(&harness, 3);
  TakeSnapshot(&harness);
  CountTo(&harness, 5);
  harness.Live();
  for (ShardIndex i : {0U, 1U}) {
    harness.shards[i].hello = Hello{};
    harness.shards[i].hello.shard = i;
    harness.shards[i].hello.incarnation = Incarnation{99};
    harness.shards[i].hello.parts = PartsOf(harness, i);
    harness.shards[i].hello.config_hash = HashJobConfig(harness.config);
    harness.shards[i].hello.endpoint = "shard-" + std::to_string(i);
  }
  harness.ShardsEchoTerm();
  for (const Reset& reset : Resets(&harness)) {
    CHECK(reset.timeline == TimelineId{1});
    CHECK(reset.snapshot == Id(1, 3));
  }
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{3});  // reports of later steps are in the logs
  CHECK(harness.coordinator->timeline() == TimelineId{1});
}

TEST_CASE("durable: a shard whose log cannot go on ends the job, and leaves what it has for a better time",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  RunPastASnapshot(&harness);
  LoseLog(&harness, "too many open files");
  CHECK(harness.coordinator->state() == State::kFailed);
  const std::string failure = harness.coordinator->failure().message();
  CHECK(Mentions(failure, "acknowledged pushes after version 3 would be lost: server 1: too many open files"));
  CHECK(Mentions(failure, "--accept-rollback"));
  CHECK(harness.Logged<RecoverRecord>().back().timeline == TimelineId{1});
  harness.shards[0].hello.parts = PartsOf(harness, 0);
  harness.Live();  // the job is resumed, and the log can be read again
  harness.ShardsEchoTerm();
  for (const Reset& reset : Resets(&harness)) CHECK(reset.timeline == TimelineId{1});
}

TEST_CASE("durable: where the loss is accepted, a log that cannot go on takes all back, and a line says why",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.accept_rollback = true;
  RunPastASnapshot(&harness);
  LoseLog(&harness, "record 17 of the log is missing");
  CHECK(Mentions(harness.Notices(),
                 "acknowledged pushes after version 3 are lost: server 1: record 17 of the log is missing"));
  for (const Reset& reset : Resets(&harness)) {
    CHECK(reset.generation == Generation{3});
    CHECK(reset.timeline == TimelineId{3});
    CHECK(reset.snapshot == Id(1, 3));
    CHECK(reset.parameters.updates == 3);
  }
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{3});
  CHECK(harness.metrics->snapshots_bad.value() == 0);
}

TEST_CASE("durable: without a snapshot a log that cannot go on takes all back to version 0", "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.accept_rollback = true;
  harness.Run();
  CountTo(&harness, 2);
  harness.RestartShard(0, {});
  Resets(&harness);
  harness.Forget();
  harness.Send(harness.shards[0].peer, ResetBad{0, harness.shards[0].hello.incarnation, Generation{2}, "gone"});
  CHECK(Mentions(harness.Notices(), "acknowledged pushes after version 0 are lost: server 0: gone"));
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{0});
}

TEST_CASE("durable: logs of another number of shards do not go on", "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.Run();
  CountTo(&harness, 3);
  TakeSnapshot(&harness);
  CoordinatorHarness wider = DurableHarness(3);
  wider.log = harness.log;
  wider.Live();
  for (ShardIndex i : {0U, 1U}) wider.shards[i].hello.parts = PartsOf(harness, i);
  wider.ShardsEchoTerm();
  CHECK(wider.coordinator->state() == State::kFailed);
  CHECK(Mentions(wider.coordinator->failure().message(), "the logs are of 2 shards, and there are 3 now"));
  wider.accept_rollback = true;
  wider.Live();
  wider.ShardsEchoTerm();
  CHECK(Mentions(wider.Notices(),
                 "acknowledged pushes after version 3 are lost: the logs are of 2 shards, and there "
                 "are 3 now"));
  for (const Reset& reset : Resets(&wider)) CHECK(reset.timeline == TimelineFrom(reset.generation));
}

TEST_CASE("durable: a coordinator that dies between RECOVER and RUNNING goes on with the same timeline",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.Run();
  CountTo(&harness, 4);
  harness.RestartShard(1, {});
  harness.Live();
  harness.shards[0].hello.version = Version{4};
  harness.ShardsEchoTerm();
  for (const Reset& reset : Resets(&harness)) {
    CHECK(reset.generation == Generation{2});
    CHECK(reset.timeline == TimelineId{1});
  }
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{4});
}

TEST_CASE("durable: a shard that lives on hears the last count, also of a job that has nothing left to do",
          "[server][durable]") {
  CoordinatorHarness harness = DurableHarness();
  harness.config.job.steps = 3;
  harness.Run();
  CountTo(&harness, 3);
  TakeSnapshot(&harness);
  harness.shards[0].hello.version = Version{2};  // the ClockUpdate of step 3 was lost
  harness.RestartShard(1, PartsOf(harness, 1));
  Resets(&harness);
  for (ShardIndex i : {0U, 1U}) harness.AnswerReset(i);
  CHECK(harness.coordinator->state() == State::kFinished);
  harness.Forget();
  harness.Tick(std::chrono::seconds(1));
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<ClockUpdate>(i).at(0).clock == SequenceNumber{3});
}

TEST_CASE("received: every generation is a timeline of its own", "[server][durable]") {
  CoordinatorHarness harness = Harness(2, Mode::kAsync, {0, 1.0, 2});
  harness.Run();
  CountTo(&harness, 4);
  harness.RestartShard(1, {});
  for (const Reset& reset : Resets(&harness)) CHECK(reset.timeline == TimelineId{2});
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{0});
}

}  // namespace
}  // namespace capstan::server
