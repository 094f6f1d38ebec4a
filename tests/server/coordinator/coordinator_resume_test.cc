// A job that continues with another job file: what may differ, and from which step on the new settings apply.
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/wire/messages/reset.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using State = Coordinator::State;

// Returns a job that continues the log of `before`. Both shards have restarted, with their parts of its last snapshot.
CoordinatorHarness GoOn(const CoordinatorHarness& before) {
  CoordinatorHarness harness = Harness();
  harness.log = before.log;
  harness.config = before.config;
  const SnapshotId newest = before.coordinator->newest_snapshot();
  for (CoordinatorHarness::FakeShard& shard : harness.shards) {
    shard.hello.generation = newest.generation;
    shard.hello.incarnation = Incarnation{90};
    shard.hello.parts = {Part(newest, shard.hello.shard)};
  }
  return harness;
}

std::vector<Reset> BeginAgain(CoordinatorHarness* harness) {
  harness->Live();
  REQUIRE(harness->coordinator->state() == State::kCollecting);
  harness->ShardsEchoTerm();
  for (const char* name : {"w0", "w1"}) harness->Joins(name);
  return Resets(harness);
}

CoordinatorHarness DoneAfter(std::uint64_t steps) {
  CoordinatorHarness harness = Harness();
  harness.config.job.steps = steps;
  harness.Run();
  RunTo(&harness, steps - 2);
  while (harness.coordinator->step().value < steps) DoStep(&harness);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, steps);
  harness.Conclude();
  REQUIRE(harness.coordinator->concluded());
  return harness;
}

TEST_CASE("another learning rate holds from the newest snapshot on", "[server][recovery]") {
  CoordinatorHarness first = Harness();
  first.Run();
  RunTo(&first, 4);
  CoordinatorHarness harness = GoOn(first);
  harness.config.optimizer.lr = 0.125;
  const std::vector<Reset> resets = BeginAgain(&harness);
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[0].parameters.learning_rate == 0.125F);
  CHECK(resets[0].parameters.updates == 4);
  CHECK(harness.Logged<RecoverRecord>().back().parameters == resets[0].parameters);
  AnswerResets(&harness);
  CHECK(DoStep(&harness).learning_rate == 0.125F);
  CHECK(harness.coordinator->TakeRecords().front().learning_rate == 0.125);
}

TEST_CASE("a schedule that follows from the number of steps follows from the new one", "[server][recovery]") {
  CoordinatorHarness first = Harness();
  first.config.schedule.kind = ScheduleKind::kLinear;
  first.Run();
  RunTo(&first, 4);
  CoordinatorHarness harness = GoOn(first);
  harness.config.job.steps = 16;
  CHECK(BeginAgain(&harness)[0].parameters.learning_rate == 0.375F);  // 12 of 16 are left
}

TEST_CASE("a coordinator that dies while shards go back goes on with the rates of its new job file",
          "[server][recovery]") {
  CoordinatorHarness first = Harness();
  first.Run();
  RunTo(&first, 4);
  CoordinatorHarness second = GoOn(first);
  BeginAgain(&second);
  REQUIRE(second.coordinator->state() == State::kResetting);
  CoordinatorHarness harness = GoOn(second);
  harness.config.optimizer.lr = 0.125;
  CHECK(BeginAgain(&harness)[0].parameters.learning_rate == 0.125F);
}

TEST_CASE("a job that is done goes on where its job file has more steps, and is done again after them",
          "[server][recovery][stop]") {
  const CoordinatorHarness first = DoneAfter(4);
  CoordinatorHarness harness = GoOn(first);
  harness.config.job.steps = 6;
  const std::vector<Reset> resets = BeginAgain(&harness);
  CHECK(!harness.coordinator->concluded());
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(!resets[0].parameters.stop);
  CHECK(harness.Logged<JobRecord>().size() == 2);
  CHECK(harness.Logged<JobRecord>().back().job == harness.Logged<JobRecord>().front().job);
  AnswerResets(&harness);
  CHECK(!DoStep(&harness).stop);
  CHECK(DoStep(&harness).stop);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 6);
  CHECK(harness.coordinator->state() == State::kFinished);

  SECTION("a coordinator that dies before the end goes on, and does not take the first end for this one") {
    CoordinatorHarness again = GoOn(harness);
    again.Live();
    CHECK(!again.coordinator->concluded());
    CHECK(again.Logged<JobRecord>().size() == 2);
  }
  SECTION("after the end there is nothing left to do") {
    harness.Conclude();
    CoordinatorHarness again = GoOn(harness);
    again.Live();
    CHECK(again.coordinator->concluded());
    CHECK(again.coordinator->state() == State::kFinished);
  }
}

TEST_CASE("a job does not go on with fewer steps than it has done, and its log stays as it was", "[server][recovery]") {
  const CoordinatorHarness first = DoneAfter(4);
  CoordinatorHarness harness = GoOn(first);
  harness.config.job.steps = 3;
  harness.Live();
  CHECK(harness.coordinator->state() == State::kFailed);
  CHECK(Mentions(harness.coordinator->failure().message(), "job.steps = 3"));
  CHECK(Mentions(harness.coordinator->failure().message(), "version 4"));
  CHECK(harness.Logged<JobRecord>().size() == 1);
  harness.config.job.steps = 4;
  harness.Live();
  CHECK(harness.coordinator->concluded());
}

TEST_CASE("after a stop nobody is awaited: workers wait for whoever resumes the job", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 2);
  CHECK(harness.coordinator->AwaitsWorkers());
  harness.coordinator->RequestStop(harness.now);
  harness.Tick();
  REQUIRE(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(!harness.coordinator->AwaitsWorkers());
}

}  // namespace
}  // namespace capstan::server
