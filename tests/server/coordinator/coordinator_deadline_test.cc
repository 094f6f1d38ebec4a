// When a job without progress is given up, and whom the error names.
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a job that cannot gather fails at limits.join and names who is missing", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.join = 8;
  harness.config.limits.report = 3;
  harness.Live();
  harness.shards[0].hello.term = Term{1};
  harness.SendHello(0);
  const Join w0 = harness.Joins("w0");
  harness.Pass(seconds(4), {w0});
  CHECK(IsNamed(harness.Notices(), "server 1 (never seen)"));
  CHECK(IsNamed(harness.Notices(), "1 of 2 workers (not joined)"));
  CHECK(IsNamed(harness.Notices(), "giving up after 8 s"));
  CHECK(harness.coordinator->state() == State::kCollecting);
  harness.Pass(seconds(5), {w0});
  CHECK(harness.coordinator->state() == State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "server 0 at shard-0 (silent for"));
  CHECK(IsNamed(harness.coordinator->failure().message(), "server 1 (never seen)"));
  const View view = harness.ViewOf(w0);
  CHECK(view.phase == JobPhase::kFailed);
  CHECK(view.message == harness.coordinator->failure().message());
}

TEST_CASE("a limit shorter than the time between two reports counts too", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.join = 2;
  harness.config.limits.report = 30;
  harness.Live();
  harness.Pass(seconds(3));
  CHECK(harness.coordinator->state() == State::kFailed);
}

TEST_CASE("a job without a committed step fails at limits.stall and names whom it waited for", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.stall = 20;
  harness.config.limits.lease = 1000;
  harness.Run();
  const Join w0 = harness.Joins("w0");
  Heartbeat idle = harness.MakeHeartbeat(w0);
  idle.generation = Generation{1};
  harness.Send(CoordinatorHarness::PeerOf(w0), idle);  // w0 has done its slots
  harness.Pass(seconds(10));
  harness.SendHello(0);
  harness.SendHello(1);
  harness.DoStep(0);
  idle.step = Step{1};
  harness.Send(CoordinatorHarness::PeerOf(w0), idle);
  CHECK(!IsNamed(harness.coordinator->WaitingFor(harness.now), "\"w0\""));
  Heartbeat cut = idle;
  cut.missing = {1};  // w0 gets no answer from shard 1
  harness.Send(CoordinatorHarness::PeerOf(w0), cut);
  CHECK(IsNamed(harness.coordinator->WaitingFor(harness.now),
                "\"w0\" (step 1, last heard 0 s ago, gets no answer from server 1"));
  harness.Send(CoordinatorHarness::PeerOf(w0), idle);
  harness.Pass(seconds(19));
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.SendHello(0);
  harness.SendHello(1);
  harness.Pass(seconds(2));
  CHECK(harness.coordinator->state() == State::kFailed);
  INFO(harness.coordinator->failure().message());
  CHECK(IsNamed(harness.coordinator->failure().message(), "\"w1\""));
  CHECK(!IsNamed(harness.coordinator->failure().message(), "\"w0\""));
  CHECK(!IsNamed(harness.coordinator->failure().message(), "server"));
}

TEST_CASE("a shard that is lost after each Reset ends the job at limits.stall", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.stall = 20;
  harness.config.limits.lease = 1000;
  harness.Run();
  for (int i = 0; i < 60 && harness.coordinator->state() != State::kFailed; ++i) {
    harness.RestartShard(1, {});
    harness.SendHello(0);
    harness.Pass(seconds(1));
    for (ShardIndex shard : {0U, 1U}) harness.AnswerReset(shard);
  }
  REQUIRE(harness.coordinator->state() == State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "no step was committed for"));
  CHECK(IsNamed(harness.coordinator->failure().message(), "server 1 was lost"));
}

TEST_CASE("a recovery has the whole of limits.stall, and so has the step after it", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.stall = 20;
  harness.config.limits.lease = 1000;
  harness.Run();
  harness.Pass(seconds(18));  // a long step, and then a loss
  harness.RestartShard(1, {});
  harness.SendHello(0);
  harness.Pass(seconds(18));  // server 1 loads
  CHECK(harness.coordinator->state() == State::kResetting);
  for (ShardIndex shard : {0U, 1U}) harness.AnswerReset(shard);
  harness.Pass(seconds(18));
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.DoStep(0);
  harness.Pass(seconds(18));  // another loss, after a step: it has its full time again
  harness.RestartShard(0, {});
  harness.SendHello(1);
  harness.Pass(seconds(18));
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.Pass(seconds(3));
  CHECK(harness.coordinator->state() == State::kFailed);
}

TEST_CASE("a shard that loads a large part has more than limits.stall", "[server][deadline]") {
  CoordinatorHarness harness(1, 1);
  harness.config.limits.stall = 2;
  harness.config.optimizer.kind = OptimizerKind::kSgd;  // without states
  harness.config.limits.lease = 1000;
  harness.Live();
  harness.ShardsEchoTerm();
  Join join = harness.MakeJoin("w0");
  join.catalog = {{"a", {2, 1 << 20}, {InitKind::kZeros, 0.0F}, true}};  // 8 MiB: a second on the slowest line
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  REQUIRE(harness.coordinator->state() == State::kResetting);
  harness.Pass(milliseconds(2500));
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.Pass(seconds(1));
  CHECK(harness.coordinator->state() == State::kFailed);
}

TEST_CASE("a limit of 0 is none", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.config.limits.stall = harness.config.limits.join = 0;
  harness.Run();
  harness.Pass(std::chrono::hours(1));
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("a shard that is silent is named with its address and since when", "[server][deadline]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(0);
  harness.SendHello(1);
  CHECK(!IsNamed(harness.coordinator->WaitingFor(harness.now), "server"));
  harness.Pass(seconds(6));
  harness.SendHello(0);
  const std::string waiting = harness.coordinator->WaitingFor(harness.now);
  CHECK(IsNamed(waiting, "server 1 at shard-1 (silent for 6 s)"));
  CHECK(!IsNamed(waiting, "server 0"));
}

}  // namespace
}  // namespace capstan::server
