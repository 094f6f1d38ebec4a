// A job that continues with another job file: what may differ, and from which step on the new settings apply.
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/wire/messages/reset.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using State = Coordinator::State;

// Restarts both shards with their parts of the last snapshot of `before`, in a job that continues with its log.
CoordinatorBench GoOn(const CoordinatorBench& before) {
  CoordinatorBench bench = Bench();
  bench.log = before.log;
  bench.config = before.config;
  const SnapshotId newest = before.coordinator->newest_snapshot();
  for (CoordinatorBench::FakeShard& shard : bench.shards) {
    shard.hello.generation = newest.generation;
    shard.hello.incarnation = Incarnation{90};
    shard.hello.parts = {Part(newest, shard.hello.shard)};
  }
  return bench;
}

std::vector<Reset> BeginAgain(CoordinatorBench* bench) {
  bench->Live();
  REQUIRE(bench->coordinator->state() == State::kCollecting);
  bench->ShardsEchoTerm();
  for (const char* name : {"w0", "w1"}) bench->Joins(name);
  return Resets(bench);
}

CoordinatorBench DoneAfter(std::uint64_t steps) {
  CoordinatorBench bench = Bench();
  bench.config.job.steps = steps;
  bench.Run();
  RunTo(&bench, steps - 2);
  while (bench.coordinator->step().value < steps) DoStep(&bench);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, steps);
  bench.Conclude();
  REQUIRE(bench.coordinator->concluded());
  return bench;
}

TEST_CASE("another learning rate holds from the newest snapshot on", "[server][recovery]") {
  CoordinatorBench first = Bench();
  first.Run();
  RunTo(&first, 4);
  CoordinatorBench bench = GoOn(first);
  bench.config.optimizer.lr = 0.125;
  const std::vector<Reset> resets = BeginAgain(&bench);
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[0].parameters.learning_rate == 0.125F);
  CHECK(resets[0].parameters.updates == 4);
  CHECK(bench.Logged<RecoverRecord>().back().parameters == resets[0].parameters);
  AnswerResets(&bench);
  CHECK(DoStep(&bench).learning_rate == 0.125F);
  CHECK(bench.coordinator->TakeRecords().front().learning_rate == 0.125);
}

TEST_CASE("a schedule that follows from the number of steps follows from the new one", "[server][recovery]") {
  CoordinatorBench first = Bench();
  first.config.schedule.kind = ScheduleKind::kLinear;
  first.Run();
  RunTo(&first, 4);
  CoordinatorBench bench = GoOn(first);
  bench.config.job.steps = 16;
  CHECK(BeginAgain(&bench)[0].parameters.learning_rate == 0.375F);  // 12 of 16 are left
}

TEST_CASE("a coordinator that dies while shards go back goes on with the rates of its new job file",
          "[server][recovery]") {
  CoordinatorBench first = Bench();
  first.Run();
  RunTo(&first, 4);
  CoordinatorBench second = GoOn(first);
  BeginAgain(&second);
  REQUIRE(second.coordinator->state() == State::kResetting);
  CoordinatorBench bench = GoOn(second);
  bench.config.optimizer.lr = 0.125;
  CHECK(BeginAgain(&bench)[0].parameters.learning_rate == 0.125F);
}

TEST_CASE("a job that is done goes on where its job file has more steps, and is done again after them",
          "[server][recovery][stop]") {
  const CoordinatorBench first = DoneAfter(4);
  CoordinatorBench bench = GoOn(first);
  bench.config.job.steps = 6;
  const std::vector<Reset> resets = BeginAgain(&bench);
  CHECK(!bench.coordinator->concluded());
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(!resets[0].parameters.stop);
  CHECK(bench.Logged<JobRecord>().size() == 2);
  CHECK(bench.Logged<JobRecord>().back().job == bench.Logged<JobRecord>().front().job);
  AnswerResets(&bench);
  CHECK(!DoStep(&bench).stop);
  CHECK(DoStep(&bench).stop);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 6);
  CHECK(bench.coordinator->state() == State::kFinished);

  SECTION("a coordinator that dies before the end goes on, and does not take the first end for this one") {
    CoordinatorBench again = GoOn(bench);
    again.Live();
    CHECK(!again.coordinator->concluded());
    CHECK(again.Logged<JobRecord>().size() == 2);
  }
  SECTION("after the end there is nothing left to do") {
    bench.Conclude();
    CoordinatorBench again = GoOn(bench);
    again.Live();
    CHECK(again.coordinator->concluded());
    CHECK(again.coordinator->state() == State::kFinished);
  }
}

TEST_CASE("a job does not go on with fewer steps than it has done, and its log stays as it was", "[server][recovery]") {
  const CoordinatorBench first = DoneAfter(4);
  CoordinatorBench bench = GoOn(first);
  bench.config.job.steps = 3;
  bench.Live();
  CHECK(bench.coordinator->state() == State::kFailed);
  CHECK(Mentions(bench.coordinator->failure().message(), "job.steps = 3"));
  CHECK(Mentions(bench.coordinator->failure().message(), "version 4"));
  CHECK(bench.Logged<JobRecord>().size() == 1);
  bench.config.job.steps = 4;
  bench.Live();
  CHECK(bench.coordinator->concluded());
}

TEST_CASE("after a stop nobody is awaited: workers wait for whoever resumes the job", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 2);
  CHECK(bench.coordinator->AwaitsWorkers());
  bench.coordinator->RequestStop(bench.now);
  bench.Tick();
  REQUIRE(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->worker_count() == 2);
  CHECK(!bench.coordinator->AwaitsWorkers());
}

}  // namespace
}  // namespace capstan::server
