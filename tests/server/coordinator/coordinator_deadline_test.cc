// When a job without progress is given up, and whom the error names.
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a job that cannot gather fails at limits.join and names who is missing", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.join = 8;
  bench.config.limits.report = 3;
  bench.Live();
  bench.shards[0].hello.term = Term{1};
  bench.SayHello(0);
  const Join w0 = bench.Joins("w0");
  bench.Pass(seconds(4), {w0});
  CHECK(IsNamed(bench.Notices(), "server 1 (never seen)"));
  CHECK(IsNamed(bench.Notices(), "1 of 2 workers (not joined)"));
  CHECK(IsNamed(bench.Notices(), "giving up after 8 s"));
  CHECK(bench.coordinator->state() == State::kCollecting);
  bench.Pass(seconds(5), {w0});
  CHECK(bench.coordinator->state() == State::kFailed);
  CHECK(IsNamed(bench.coordinator->failure().message(), "server 0 at shard-0 (silent for"));
  CHECK(IsNamed(bench.coordinator->failure().message(), "server 1 (never seen)"));
  const View view = bench.ViewOf(w0);
  CHECK(view.phase == JobPhase::kFailed);
  CHECK(view.message == bench.coordinator->failure().message());
}

TEST_CASE("a limit shorter than the time between two reports counts too", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.join = 2;
  bench.config.limits.report = 30;
  bench.Live();
  bench.Pass(seconds(3));
  CHECK(bench.coordinator->state() == State::kFailed);
}

TEST_CASE("a job without a committed step fails at limits.stall and names whom it waited for", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.stall = 20;
  bench.config.limits.lease = 1000;
  bench.Run();
  const Join w0 = bench.Joins("w0");
  Beat idle = bench.MakeBeat(w0);
  idle.generation = Generation{1};
  bench.Send(CoordinatorBench::PeerOf(w0), idle);  // w0 has done its slots
  bench.Pass(seconds(10));
  bench.SayHello(0);
  bench.SayHello(1);
  bench.DoStep(0);
  idle.step = Step{1};
  bench.Send(CoordinatorBench::PeerOf(w0), idle);
  CHECK(!IsNamed(bench.coordinator->WaitingFor(bench.now), "\"w0\""));
  Beat cut = idle;
  cut.missing = {1};  // it waits for weights and an answer
  bench.Send(CoordinatorBench::PeerOf(w0), cut);
  CHECK(IsNamed(bench.coordinator->WaitingFor(bench.now),
                "\"w0\" (step 1, last heard 0 s ago, gets no answer from server 1"));
  bench.Send(CoordinatorBench::PeerOf(w0), idle);
  bench.Pass(seconds(19));
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.SayHello(0);
  bench.SayHello(1);
  bench.Pass(seconds(2));
  CHECK(bench.coordinator->state() == State::kFailed);
  INFO(bench.coordinator->failure().message());
  CHECK(IsNamed(bench.coordinator->failure().message(), "\"w1\""));
  CHECK(!IsNamed(bench.coordinator->failure().message(), "\"w0\""));
  CHECK(!IsNamed(bench.coordinator->failure().message(), "server"));
}

TEST_CASE("a shard that is lost after each Reset ends the job at limits.stall", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.stall = 20;
  bench.config.limits.lease = 1000;
  bench.Run();
  for (int i = 0; i < 60 && bench.coordinator->state() != State::kFailed; ++i) {
    bench.RestartShard(1, {});
    bench.SayHello(0);
    bench.Pass(seconds(1));
    for (ShardIndex shard : {0U, 1U}) bench.AnswerReset(shard);
  }
  REQUIRE(bench.coordinator->state() == State::kFailed);
  CHECK(IsNamed(bench.coordinator->failure().message(), "no step was committed for"));
  CHECK(IsNamed(bench.coordinator->failure().message(), "server 1 was lost"));
}

TEST_CASE("a recovery has the whole of limits.stall, and so has the step after it", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.stall = 20;
  bench.config.limits.lease = 1000;
  bench.Run();
  bench.Pass(seconds(18));  // a long step, and then a loss
  bench.RestartShard(1, {});
  bench.SayHello(0);
  bench.Pass(seconds(18));  // it loads
  CHECK(bench.coordinator->state() == State::kResetting);
  for (ShardIndex shard : {0U, 1U}) bench.AnswerReset(shard);
  bench.Pass(seconds(18));
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.DoStep(0);
  bench.Pass(seconds(18));  // another loss, after a step: it has its full time again
  bench.RestartShard(0, {});
  bench.SayHello(1);
  bench.Pass(seconds(18));
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.Pass(seconds(3));
  CHECK(bench.coordinator->state() == State::kFailed);
}

TEST_CASE("a shard that loads a large part has more than limits.stall", "[server][deadline]") {
  CoordinatorBench bench(1, 1);
  bench.config.limits.stall = 2;
  bench.config.optimizer.kind = OptimizerKind::kSgd;  // without states
  bench.config.limits.lease = 1000;
  bench.Live();
  bench.ShardsEchoTerm();
  Join join = bench.MakeJoin("w0");
  join.catalog = {{"a", {2, 1 << 20}, {InitKind::kZeros, 0.0F}, true}};  // 8 MiB: a second on the slowest line
  bench.Send(CoordinatorBench::PeerOf(join), join);
  REQUIRE(bench.coordinator->state() == State::kResetting);
  bench.Pass(milliseconds(2500));
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.Pass(seconds(1));
  CHECK(bench.coordinator->state() == State::kFailed);
}

TEST_CASE("a limit of 0 is none", "[server][deadline]") {
  CoordinatorBench bench;
  bench.config.limits.stall = bench.config.limits.join = 0;
  bench.Run();
  bench.Pass(std::chrono::hours(1));
  CHECK(bench.coordinator->state() == State::kRunning);
}

TEST_CASE("a shard that is silent is named with its address and since when", "[server][deadline]") {
  CoordinatorBench bench;
  bench.Run();
  bench.SayHello(0);
  bench.SayHello(1);
  CHECK(!IsNamed(bench.coordinator->WaitingFor(bench.now), "server"));
  bench.Pass(seconds(6));
  bench.SayHello(0);
  const std::string waiting = bench.coordinator->WaitingFor(bench.now);
  CHECK(IsNamed(waiting, "server 1 at shard-1 (silent for 6 s)"));
  CHECK(!IsNamed(waiting, "server 0"));
}

}  // namespace
}  // namespace capstan::server
