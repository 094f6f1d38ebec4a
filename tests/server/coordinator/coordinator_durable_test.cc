// A coordinator's reaction to the loss of a shard, with durable acknowledgements: all enter another generation, and no
// shard goes back.
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

CoordinatorBench DurableBench(std::uint32_t shard_count = 2) {
  CoordinatorBench bench = Bench(shard_count, Mode::kAsync, {0, 1.0, 2});
  bench.config.job.acknowledge = Acknowledge::kDurable;
  return bench;
}

void CountTo(CoordinatorBench* bench, std::uint64_t clock) {
  while (bench->coordinator->step().value < clock) Clocks(bench, bench->coordinator->step().value + 1);
}

// Takes a snapshot of the job's present step.
void TakeSnapshot(CoordinatorBench* bench) {
  bench->Tick(std::chrono::seconds(2));
  const std::uint64_t version = bench->coordinator->step().value;
  for (ShardIndex i = 0; i < bench->shards.size(); ++i) bench->Keeps(i, version);
  REQUIRE(bench->coordinator->newest_snapshot().version.value == version);
  bench->Forget();
}

Parts PartsOf(const CoordinatorBench& bench, ShardIndex shard) {
  return {Part(bench.coordinator->newest_snapshot(), shard)};
}

// Runs the job until 7 steps are counted; its newest snapshot is version 3.
void RunPastASnapshot(CoordinatorBench* bench) {
  bench->Run();
  CountTo(bench, 3);
  TakeSnapshot(bench);
  CountTo(bench, 7);
}

// Loses server 1, which comes back with an unusable log.
void LoseLog(CoordinatorBench* bench, const std::string& why) {
  bench->RestartShard(1, PartsOf(*bench, 1));
  const Generation generation = Resets(bench)[1].generation;
  bench->Forget();
  bench->Send(bench->shards[1].peer, ResetBad{1, bench->shards[1].hello.incarnation, generation, why});
}

TEST_CASE("async: a clock that passes a multiple of every_steps asks for a snapshot", "[server][snapshot]") {
  CoordinatorBench bench = Bench(2, Mode::kAsync, {5, 0, 2});
  bench.Run();
  CountTo(&bench, 4);
  bench.Tick(std::chrono::milliseconds(100));
  CHECK(bench.Count<Pin>() == 0);
  CountTo(&bench, 7);  // from one Tick to the next
  bench.Tick(std::chrono::milliseconds(100));
  CHECK(bench.Count<Pin>() == 2);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 7);
  bench.Forget();
  CountTo(&bench, 9);
  bench.Tick(std::chrono::seconds(1));
  CHECK(bench.Count<Pin>() == 0);
  CountTo(&bench, 10);
  bench.Tick(std::chrono::seconds(1));
  CHECK(bench.Count<Pin>() == 2);
}

TEST_CASE("async: a snapshot that was given up is not asked for again before the next multiple", "[server][snapshot]") {
  CoordinatorBench bench = Bench(2, Mode::kAsync, {5, 0, 2});
  bench.Run();
  CountTo(&bench, 7);
  bench.Tick(std::chrono::milliseconds(100));
  REQUIRE(bench.Count<Pin>() == 2);
  SnapshotDone failed = bench.MakeDone(1, 7);
  failed.failure = "the disk is full";
  bench.Send(bench.shards[1].peer, failed);
  bench.Forget();
  CountTo(&bench, 9);
  bench.Tick(std::chrono::seconds(1));
  CHECK(bench.Count<Pin>() == 0);
  CountTo(&bench, 10);
  bench.Tick(std::chrono::seconds(1));
  CHECK(bench.TakeFromShard<Pin>(1).at(0).version == Version{10});
}

TEST_CASE("durable: a lost shard begins a generation in which the history goes on, and the clock does not fall",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.Run();
  CHECK(bench.Logged<RecoverRecord>().back().history == Generation{1});
  CountTo(&bench, 3);
  TakeSnapshot(&bench);
  CountTo(&bench, 7);
  bench.Forget();
  bench.RestartShard(1, PartsOf(bench, 1));
  CHECK(Mentions(bench.Notices(), "server 1 was lost and came back with its log"));
  CHECK(Mentions(bench.Notices(),
                 "every shard goes on where it was; what was lost comes back from the "
                 "snapshot of version 3 and the logs"));
  CHECK(!Mentions(bench.Notices(), "are lost"));
  for (const Reset& reset : Resets(&bench)) {
    CHECK(reset.generation == Generation{2});
    CHECK(reset.history == Generation{1});
    CHECK(reset.snapshot == Id(1, 3));
    CHECK(reset.parameters.updates == 7);
  }
  CHECK(bench.Logged<RecoverRecord>().back().history == Generation{1});
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{7});
  Clocks(&bench, 8);
  CHECK(bench.coordinator->step() == Step{8});
}

TEST_CASE("durable: a new coordinator that finds a lost shard counts on from what the living ones know",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.Run();
  CountTo(&bench, 5);
  bench.Live();
  bench.shards[0].hello.version = Version{5};
  bench.shards[1].hello.incarnation = Incarnation{99};
  bench.shards[1].hello.serving = false;
  bench.shards[1].hello.version = {};
  bench.ShardsEchoTerm();
  for (const Reset& reset : Resets(&bench)) CHECK(reset.history == Generation{1});
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{5});
}

TEST_CASE("durable: when all have died, the history goes on from the newest snapshot and the logs",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.Run();
  CountTo(&bench, 3);
  TakeSnapshot(&bench);
  CountTo(&bench, 5);
  bench.Live();
  for (ShardIndex i : {0U, 1U}) {
    bench.shards[i].hello = Hello{};
    bench.shards[i].hello.shard = i;
    bench.shards[i].hello.incarnation = Incarnation{99};
    bench.shards[i].hello.parts = PartsOf(bench, i);
    bench.shards[i].hello.config_hash = HashJobConfig(bench.config);
    bench.shards[i].hello.endpoint = "shard-" + std::to_string(i);
  }
  bench.ShardsEchoTerm();
  for (const Reset& reset : Resets(&bench)) {
    CHECK(reset.history == Generation{1});
    CHECK(reset.snapshot == Id(1, 3));
  }
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{3});  // reports of later steps are in the logs
  CHECK(bench.coordinator->history() == Generation{1});
}

TEST_CASE("durable: a shard whose log cannot go on ends the job, and leaves what it has for a better time",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  RunPastASnapshot(&bench);
  LoseLog(&bench, "too many open files");
  CHECK(bench.coordinator->state() == State::kFailed);
  const std::string failure = bench.coordinator->failure().message();
  CHECK(Mentions(failure, "acknowledged pushes after version 3 would be lost: server 1: too many open files"));
  CHECK(Mentions(failure, "--accept-rollback"));
  CHECK(bench.Logged<RecoverRecord>().back().history == Generation{1});
  bench.shards[0].hello.parts = PartsOf(bench, 0);
  bench.Live();  // resumed without problems
  bench.ShardsEchoTerm();
  for (const Reset& reset : Resets(&bench)) CHECK(reset.history == Generation{1});
}

TEST_CASE("durable: where the loss is accepted, a log that cannot go on takes all back, and a line says why",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.accept_rollback = true;
  RunPastASnapshot(&bench);
  LoseLog(&bench, "record 17 of the log is missing");
  CHECK(Mentions(bench.Notices(),
                 "acknowledged pushes after version 3 are lost: server 1: record 17 of the log is missing"));
  for (const Reset& reset : Resets(&bench)) {
    CHECK(reset.generation == Generation{3});
    CHECK(reset.history == Generation{3});
    CHECK(reset.snapshot == Id(1, 3));
    CHECK(reset.parameters.updates == 3);
  }
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{3});
  CHECK(bench.metrics->snapshots_bad.value() == 0);
}

TEST_CASE("durable: without a snapshot a log that cannot go on takes all back to version 0", "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.accept_rollback = true;
  bench.Run();
  CountTo(&bench, 2);
  bench.RestartShard(0, {});
  Resets(&bench);
  bench.Forget();
  bench.Send(bench.shards[0].peer, ResetBad{0, bench.shards[0].hello.incarnation, Generation{2}, "gone"});
  CHECK(Mentions(bench.Notices(), "acknowledged pushes after version 0 are lost: server 0: gone"));
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{0});
}

TEST_CASE("durable: logs of another number of shards do not go on", "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.Run();
  CountTo(&bench, 3);
  TakeSnapshot(&bench);
  CoordinatorBench wider = DurableBench(3);
  wider.log = bench.log;
  wider.Live();
  for (ShardIndex i : {0U, 1U}) wider.shards[i].hello.parts = PartsOf(bench, i);
  wider.ShardsEchoTerm();
  CHECK(wider.coordinator->state() == State::kFailed);
  CHECK(Mentions(wider.coordinator->failure().message(), "the logs are of 2 shards, and there are 3 now"));
  wider.accept_rollback = true;
  wider.Live();
  wider.ShardsEchoTerm();
  CHECK(Mentions(wider.Notices(),
                 "acknowledged pushes after version 3 are lost: the logs are of 2 shards, and there "
                 "are 3 now"));
  for (const Reset& reset : Resets(&wider)) CHECK(reset.history == reset.generation);
}

TEST_CASE("durable: a coordinator that dies between RECOVER and RUNNING goes on with the same history",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.Run();
  CountTo(&bench, 4);
  bench.RestartShard(1, {});
  bench.Live();
  bench.shards[0].hello.version = Version{4};
  bench.ShardsEchoTerm();
  for (const Reset& reset : Resets(&bench)) {
    CHECK(reset.generation == Generation{2});
    CHECK(reset.history == Generation{1});
  }
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{4});
}

TEST_CASE("durable: a shard that lives on hears the last count, also of a job that has nothing left to do",
          "[server][durable]") {
  CoordinatorBench bench = DurableBench();
  bench.config.job.steps = 3;
  bench.Run();
  CountTo(&bench, 3);
  TakeSnapshot(&bench);
  bench.shards[0].hello.version = Version{2};  // the message about the third was lost
  bench.RestartShard(1, PartsOf(bench, 1));
  Resets(&bench);
  for (ShardIndex i : {0U, 1U}) bench.AnswerReset(i);
  CHECK(bench.coordinator->state() == State::kFinished);
  bench.Forget();
  bench.Tick(std::chrono::seconds(1));
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Rates>(i).at(0).step == Step{3});
}

TEST_CASE("received: every generation is a history of its own", "[server][durable]") {
  CoordinatorBench bench = Bench(2, Mode::kAsync, {0, 1.0, 2});
  bench.Run();
  CountTo(&bench, 4);
  bench.RestartShard(1, {});
  for (const Reset& reset : Resets(&bench)) CHECK(reset.history == Generation{2});
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{0});
}

}  // namespace
}  // namespace capstan::server
