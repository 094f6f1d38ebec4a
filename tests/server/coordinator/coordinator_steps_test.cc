// Decisions about steps, and the reaction of a new coordinator to the state that it finds.
#include <cmath>

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a step is committed when all shards have prepared it, and to all with the same words",
          "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Prepares(0, 0);
  CHECK(bench.Count<Commit>() == 0);
  bench.Prepares(1, 0);
  const Commit a = bench.TakeFromShard<Commit>(0).at(0), b = bench.TakeFromShard<Commit>(1).at(0);
  CHECK(a == b);
  CHECK(a.step == Step{0});
  CHECK(a.attempt == 0);
  CHECK(a.action == StepAction::kApply);
  CHECK(a.next.updates == 1);
  const std::vector<StepRecord> records = bench.coordinator->TakeRecords();
  REQUIRE(records.size() == 1);
  CHECK(records[0].samples == 2);
  CHECK(records[0].loss == 2.0);
  CHECK(records[0].gradient_norm == std::sqrt(2.0));
  CHECK(bench.coordinator->step() == Step{1});
}

TEST_CASE("a Prepared of another generation, life, step or size does not count", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Prepares(0, 0);
  const Prepared good = bench.MakePrepared(1, 0);
  std::vector<Prepared> bad(7, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{52};
  bad[2].step = Step{1};
  bad[3].report.segment_squares.clear();
  bad[4].report.segment_squares.push_back(1.0);
  bad[5].shard = 2;
  bad[6].shard = UINT32_MAX;
  for (const Prepared& one : bad) bench.Send(bench.shards[1].peer, one);
  CHECK(bench.Count<Commit>() == 0);
  bench.Send(bench.shards[1].peer, good);
  CHECK(bench.Count<Commit>() == 2);
}

TEST_CASE("only a shard itself speaks for it", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.config.job.steps = 1;
  bench.Run();
  bench.Prepares(0, 0);
  bench.Send(CoordinatorBench::kStranger, bench.MakePrepared(1, 0));
  CHECK(bench.Count<Commit>() == 0);
  bench.Prepares(1, 0);
  REQUIRE(bench.Count<Commit>() == 2);
  bench.Commits(0, bench.TakeFromShard<Commit>(0).at(0));
  bench.Send(CoordinatorBench::kStranger, Committed{1, Incarnation{51}, Generation{1}, Step{0}});
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Commits(1, bench.TakeFromShard<Commit>(1).at(0));
  CHECK(bench.coordinator->state() == State::kFinished);
  CoordinatorBench gathering;
  gathering.Live();
  gathering.ShardsEchoTerm();
  gathering.Joins("w0");
  gathering.Joins("w1");
  gathering.AnswerReset(0);
  gathering.Send(CoordinatorBench::kStranger, ResetDone{1, Incarnation{51}, Generation{1}});
  gathering.Send(CoordinatorBench::kStranger, ResetBad{1, Incarnation{51}, Generation{1}, "no"});
  gathering.Send(gathering.shards[1].peer, ResetBad{1, Incarnation{41}, Generation{1}, "no"});
  CHECK(gathering.coordinator->state() == State::kResetting);
}

TEST_CASE("a Commit is repeated until it is answered, to those who have not", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Prepares(0, 0);
  bench.Prepares(1, 0);
  const Commit commit = bench.TakeFromShard<Commit>(0).at(0);
  bench.Commits(0, commit);
  bench.Forget();
  bench.Send(bench.shards[1].peer, Committed{1, Incarnation{49}, Generation{1}, Step{0}});  // from another incarnation
  bench.Send(bench.shards[1].peer, Committed{1, Incarnation{51}, Generation{9}, Step{0}});
  bench.Send(bench.shards[1].peer, Committed{1, Incarnation{51}, Generation{1}, Step{5}});  // an undecided step
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Commit>(0).empty());
  CHECK(bench.TakeFromShard<Commit>(1).at(0) == commit);
  bench.Commits(1, commit);
  bench.Tick(seconds(9));
  CHECK(bench.Count<Commit>() == 0);
}

TEST_CASE("who prepares a step again that is decided is given the Commit", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Prepares(0, 0);
  bench.Prepares(1, 0);
  const Commit commit = bench.TakeFromShard<Commit>(1).at(0);
  bench.Commits(0, commit);
  bench.Forget();
  bench.Prepares(1, 0);
  CHECK(bench.TakeFromShard<Commit>(1).at(0) == commit);
}

TEST_CASE("a norm above the limit is redone by all before it is committed", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.config.optimizer.clip_norm = 1.0;
  bench.Run();
  bench.Prepares(0, 0, 25.0);
  bench.Prepares(1, 0, 144.0);
  for (ShardIndex i : {0U, 1U}) {
    const Redo redo = bench.TakeFromShard<Redo>(i).at(0);
    CHECK(redo.attempt == 1);
    CHECK(redo.step == Step{0});
    CHECK(redo.clip == static_cast<float>(1.0 / (13.0 + 1e-6)));
  }
  bench.Prepares(0, 0, 25.0, 1);
  bench.Prepares(0, 0, 25.0, 0);  // late
  CHECK(bench.Count<Commit>() == 0);
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Redo>(0).empty());
  CHECK(bench.TakeFromShard<Redo>(1).size() == 1);
  bench.Prepares(1, 0, 144.0, 1);
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Commit>(i).at(0).attempt == 1);
  CHECK(bench.coordinator->TakeRecords().size() == 1);
}

TEST_CASE("a gradient that is not finite fails the job and names tensor, slot and worker", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.Prepares(0, 0);
  Prepared bad = bench.MakePrepared(1, 0, NAN);
  bad.report.slots[0].loss_sum = NAN;
  bench.Send(bench.shards[1].peer, bad);
  CHECK(bench.coordinator->state() == State::kFailed);
  const std::string& failure = bench.coordinator->failure().message();
  INFO(failure);
  CHECK(failure.find("\"b\"") != std::string::npos);
  CHECK(failure.find("slot 1 (worker \"w1\")") != std::string::npos);
  CHECK(bench.Count<Commit>() == 0);
}

TEST_CASE("a job is finished when every shard has published the last version", "[server][coordinator]") {
  CoordinatorBench bench;
  bench.Run();
  bench.DoStep(0);
  bench.DoStep(1);
  bench.Prepares(0, 2);
  bench.Prepares(1, 2);
  const Commit last = bench.TakeFromShard<Commit>(0).at(0);
  CHECK(last.next.stop);
  bench.Commits(0, last);
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Commits(1, last);
  CHECK(bench.coordinator->state() == State::kFinished);
  const Join late = bench.Joins("w7");
  CHECK(bench.ViewOf(late).phase == JobPhase::kGathering);
  bench.Conclude();
  CHECK(bench.Take<View>(CoordinatorBench::PeerOf(bench.MakeJoin("w0"))).back().phase == JobPhase::kDone);
  CHECK(bench.ViewOf(late).phase == JobPhase::kDone);
  bench.coordinator->Shutdown();
  bench.Tick();
  CHECK(bench.TakeFromShard<capstan::Shutdown>(1).at(0).generation == Generation{1});
}

// ---- recovery and takeover ------------------------------------------------------------------------------------------

TEST_CASE("a shard's new life starts a new generation for all", "[server][recovery]") {
  CoordinatorBench bench;
  bench.Run();
  bench.DoStep(0);
  bench.Prepares(0, 1);
  Hello& hello = bench.shards[1].hello;
  const Hello old = hello;
  hello = {};
  hello.shard = 1;
  hello.incarnation = Incarnation{60};
  hello.config_hash = old.config_hash;
  hello.endpoint = "shard-1";
  bench.Forget();
  bench.SayHello(1);
  CHECK(bench.TakeFromShard<Ping>(1).size() == 1);
  hello.term = Term{1};
  bench.SayHello(1);
  CHECK(bench.coordinator->state() == State::kResetting);
  CHECK(bench.coordinator->generation() == Generation{2});
  CHECK(bench.Logged<RecoverRecord>().back().generation == Generation{2});
  CHECK(bench.TakeFromShard<Reset>(0).at(0).generation == Generation{2});
  CHECK(bench.TakeFromShard<Reset>(1).at(0).incarnation == Incarnation{60});
  bench.Send(bench.shards[0].peer, ResetDone{0, Incarnation{50}, Generation{1}});  // for the old incarnation
  Prepared late = bench.MakePrepared(0, 1);
  late.generation = Generation{1};
  bench.Send(bench.shards[0].peer, late);
  bench.AnswerReset(0);
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.AnswerReset(1);
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->step() == Step{0});
  CHECK(bench.Logged<RunningRecord>().back().incarnations == std::vector<Incarnation>{{50}, {60}});
  bench.Send(bench.shards[0].peer, late);
  bench.Prepares(1, 0);
  CHECK(bench.Count<Commit>() == 0);
  bench.DoStep(0);
  CHECK(bench.coordinator->step() == Step{1});
}

TEST_CASE("a shard that dies again while all go back is asked again, in its new life", "[server][recovery]") {
  CoordinatorBench bench;
  bench.Live();
  bench.ShardsEchoTerm();
  bench.Joins("w0");
  bench.Joins("w1");
  bench.AnswerReset(0);
  bench.Forget();
  bench.shards[0].hello = {};
  bench.shards[0].hello.incarnation = Incarnation{60};
  bench.shards[0].hello.config_hash = bench.shards[1].hello.config_hash;
  bench.ShardsEchoTerm();
  bench.AnswerReset(1);
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.Tick(seconds(6));
  CHECK(bench.TakeFromShard<Reset>(0).back().incarnation == Incarnation{60});
  bench.AnswerReset(0);
  CHECK(bench.coordinator->state() == State::kRunning);
}

TEST_CASE(
    "a new coordinator sends again what one shard has published, to those who have not, and decides nothing twice",
    "[server][takeover]") {
  CoordinatorBench bench;
  bench.Run();
  bench.DoStep(0);
  bench.Prepares(0, 1);
  bench.Prepares(1, 1);
  const Commit decided = bench.TakeFromShard<Commit>(0).at(0);
  bench.Commits(0, decided);  // shard 1 never gets it
  bench.Live();
  CHECK(bench.coordinator->term() == Term{2});
  bench.SayHello(0);
  bench.SayHello(1);  // with the old term: not believed
  CHECK(bench.TakeFromShard<Ping>(0).at(0).term == Term{2});
  bench.shards[0].hello.term = Term{2};
  bench.SayHello(0);
  bench.SayHello(1);
  bench.Tick();
  CHECK(bench.Count<Commit>() == 0);
  CHECK(bench.coordinator->state() == State::kCollecting);
  bench.shards[1].hello.term = Term{2};
  bench.SayHello(1);
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->generation() == Generation{1});
  CHECK(bench.coordinator->step() == Step{2});
  CHECK(bench.TakeFromShard<Commit>(0).empty());
  Commit again = bench.TakeFromShard<Commit>(1).at(0);
  CHECK(again.term == Term{2});
  again.term = decided.term;
  CHECK(again == decided);
  CHECK(bench.Count<Reset>() == 0);
  bench.Commits(1, again);
  bench.DoStep(2);
  CHECK(bench.coordinator->state() == State::kFinished);
}

TEST_CASE("a new coordinator decides what all have prepared, as the old one would have", "[server][takeover]") {
  CoordinatorBench bench;
  bench.Run();
  bench.DoStep(0);
  bench.Prepares(0, 1);
  bench.Prepares(1, 1);
  const Commit lost = bench.TakeFromShard<Commit>(0).at(0);
  bench.Live();
  bench.ShardsEchoTerm();
  for (ShardIndex i : {0U, 1U}) {
    Commit again = bench.TakeFromShard<Commit>(i).at(0);
    again.term = lost.term;
    CHECK(again == lost);
  }
}

TEST_CASE("a new coordinator decides a Redo again where one shard has carried it out", "[server][takeover]") {
  CoordinatorBench bench;
  bench.config.optimizer.clip_norm = 1.0;
  bench.Run();
  bench.Prepares(0, 0, 25.0);
  bench.Prepares(1, 0, 144.0);
  const Redo redo = bench.TakeFromShard<Redo>(1).at(0);
  bench.Prepares(0, 0, 25.0, 1);
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.Count<Commit>() == 0);
  CHECK(bench.TakeFromShard<Redo>(0).empty());
  const Redo again = bench.TakeFromShard<Redo>(1).at(0);
  CHECK(again.attempt == redo.attempt);
  CHECK(again.clip == redo.clip);
  bench.Prepares(1, 0, 144.0, 1);
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Commit>(i).at(0).attempt == 1);
}

TEST_CASE("a coordinator that died between Reset and running goes on with the same generation", "[server][takeover]") {
  CoordinatorBench bench;
  bench.Live();
  bench.ShardsEchoTerm();
  bench.Joins("w0");
  bench.Joins("w1");
  bench.AnswerReset(0);
  bench.Live();
  bench.ShardsEchoTerm();  // no worker is needed for that
  CHECK(bench.coordinator->state() == State::kResetting);
  CHECK(bench.coordinator->generation() == Generation{1});
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Reset>(i).at(0).generation == Generation{1});
  CHECK(bench.Logged<RecoverRecord>().size() == 1);
}

TEST_CASE("a new coordinator that finds a shard without its state starts a new generation", "[server][takeover]") {
  for (int what : {0, 1, 2}) {
    CoordinatorBench bench;
    bench.Run();
    bench.DoStep(0);
    Hello& hello = bench.shards[1].hello;
    hello.version = {};
    hello.last_commit.reset();
    if (what == 0) hello.incarnation = Incarnation{60};
    if (what == 1) hello.serving = false;
    if (what == 2) hello.generation = Generation{0};
    bench.Live();
    bench.ShardsEchoTerm();
    CHECK(bench.coordinator->state() == State::kResetting);
    CHECK(bench.coordinator->generation() == Generation{2});
  }
}

TEST_CASE("a Hello whose parts cannot belong together is refused", "[server][takeover]") {
  CoordinatorBench bench;
  bench.Run();
  bench.DoStep(0);
  bench.Prepares(0, 1);
  bench.Prepares(1, 1);
  const Hello good = bench.shards[1].hello;
  std::vector<Hello> bad(7, good);
  bad[0].prepared->report.segment_squares.clear();
  bad[1].prepared->report.segment_squares.assign(1000, 1.0);
  bad[2].prepared->incarnation = Incarnation{52};
  bad[3].prepared->generation = Generation{0};
  bad[4].last_commit->step = Step{7};
  bad[5].last_commit.reset();
  bad[6].prepared->shard = 0;
  for (const Hello& hello : bad) {
    bench.Live();
    bench.shards[1].hello = hello;
    bench.ShardsEchoTerm();
    CHECK(bench.coordinator->state() == State::kCollecting);
    CHECK(bench.TakeFromShard<Error>(1).at(0).code == Code::kInvalid);
  }
  bench.Live();
  bench.shards[1].hello = good;
  bench.ShardsEchoTerm();
  CHECK(bench.Count<Commit>() == 2);
}

TEST_CASE("a new coordinator of a job whose last step is published everywhere is finished", "[server][takeover]") {
  CoordinatorBench bench;
  bench.config.job.steps = 1;
  bench.Run();
  bench.DoStep(0);
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->state() == State::kFinished);
}

// ---- without global steps -------------------------------------------------------------------------------------------

Progress MakeProgress(const CoordinatorBench& bench, ShardIndex shard, std::vector<std::uint64_t> clocks) {
  Progress progress{
      shard, bench.shards[shard].hello.incarnation, bench.coordinator->generation(), std::move(clocks), {}};
  for (std::uint64_t step = 1; step <= progress.clocks[shard]; ++step) {
    SlotReport report;
    report.slot = shard;  // its home slot
    report.samples = report.predictions = 1;
    report.loss_sum = static_cast<double>(step);
    progress.reports.push_back({Step{step}, report});
  }
  return progress;
}

TEST_CASE("async: the clock is the slowest slot's on the slowest shard, and needs every slot's report",
          "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  const auto says = [&](ShardIndex shard, std::vector<std::uint64_t> clocks) {
    bench.Send(bench.shards[shard].peer, MakeProgress(bench, shard, std::move(clocks)));
  };
  says(0, {2, 1});
  CHECK(bench.coordinator->step() == Step{0});
  says(1, {2, 0});
  CHECK(bench.coordinator->step() == Step{0});
  says(1, {2, 1});
  CHECK(bench.coordinator->step() == Step{1});
  const std::vector<StepRecord> records = bench.coordinator->TakeRecords();
  REQUIRE(records.size() == 1);
  CHECK(records[0].loss == 1.0);
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Rates>(i).at(0).step == Step{1});
  bench.Tick(seconds(1));
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Rates>(i).at(0).step == Step{1});  // again, with the Ping
}

TEST_CASE("async: a report that a shard has dropped is not waited for; one that is still to come is",
          "[server][async]") {
  constexpr std::uint64_t kMany = Progress::kReportsMax;
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.config.job.steps = kMany + 10;
  bench.Run();
  bench.Send(bench.shards[0].peer, MakeProgress(bench, 0, {kMany + 3, kMany + 3}));
  const Progress whole = MakeProgress(bench, 1, {kMany + 3, kMany + 3});
  Progress progress = whole;
  progress.reports.resize(kMany);  // the rest comes with another one
  bench.Send(bench.shards[1].peer, progress);
  CHECK(bench.coordinator->step() == Step{kMany});
  CHECK(bench.coordinator->TakeRecords().back().samples == 2);
  progress.reports = {whole.reports[kMany + 1]};  // those of the steps before and after it are dropped
  bench.Send(bench.shards[1].peer, progress);
  CHECK(bench.coordinator->step() == Step{kMany + 3});
  const std::vector<StepRecord> records = bench.coordinator->TakeRecords();
  REQUIRE(records.size() == 3);
  CHECK(records[0].samples == 1);  // slot 0's
  CHECK(records[1].samples == 2);
  CHECK(records[2].samples == 1);
}

TEST_CASE("async: reports of a generation that has ended count for no step of the next one", "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  bench.Send(bench.shards[0].peer, MakeProgress(bench, 0, {2, 1}));  // a report of slot 0 for steps 1 and 2
  bench.RestartShard(1, {});
  for (ShardIndex i : {0U, 1U}) bench.AnswerReset(i);
  REQUIRE(bench.coordinator->state() == State::kRunning);
  REQUIRE(bench.coordinator->step() == Step{0});
  Progress again = MakeProgress(bench, 0, {1, 1});
  again.reports[0].report.loss_sum = 5.0;
  bench.Send(bench.shards[0].peer, again);
  bench.Send(bench.shards[1].peer, MakeProgress(bench, 1, {1, 1}));
  REQUIRE(bench.coordinator->step() == Step{1});
  CHECK(bench.coordinator->TakeRecords().back().loss == 3.0);  // the mean of 5, not of the former report, and 1
}

TEST_CASE("async: Progress that cannot be, or is not a shard's, moves nothing", "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  bench.Send(bench.shards[0].peer, MakeProgress(bench, 0, {1, 1}));
  const Progress good = MakeProgress(bench, 1, {1, 1});
  std::vector<Progress> bad(6, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{50};
  bad[2].clocks.push_back(1);
  bad[3].clocks.clear();
  bad[4].shard = 5;
  bad[5].reports[0].report.slot = 99;  // the report names no slot
  for (const Progress& progress : bad) bench.Send(bench.shards[1].peer, progress);
  bench.Send(CoordinatorBench::kStranger, good);
  CHECK(bench.coordinator->step() == Step{0});
  bench.Send(bench.shards[1].peer, good);
  CHECK(bench.coordinator->step() == Step{1});
}

TEST_CASE("async: a job is finished when every slot has all its pushes everywhere", "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  bench.Send(bench.shards[0].peer, MakeProgress(bench, 0, {3, 3}));
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Send(bench.shards[1].peer, MakeProgress(bench, 1, {3, 3}));
  CHECK(bench.coordinator->state() == State::kFinished);
  CHECK(bench.TakeFromShard<Rates>(0).at(0).parameters.stop);
}

TEST_CASE("async: a new coordinator finishes a job at once if every shard has heard of its end", "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  for (ShardIndex i : {0U, 1U}) bench.shards[i].hello.version = Version{3};
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->state() == State::kFinished);
}

TEST_CASE("async: a new coordinator finishes a job whose end only one shard has heard of", "[server][async]") {
  CoordinatorBench bench(2, 2, Mode::kAsync);
  bench.Run();
  bench.shards[0].hello.version = Version{3};
  bench.shards[1].hello.version = Version{2};  // the last Rates were lost
  bench.Live();
  bench.ShardsEchoTerm();
  REQUIRE(bench.coordinator->state() == State::kRunning);
  bench.Send(bench.shards[0].peer, MakeProgress(bench, 0, {3, 3}));
  bench.Send(bench.shards[1].peer, MakeProgress(bench, 1, {3, 3}));
  CHECK(bench.coordinator->state() == State::kFinished);
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Rates>(1).at(0).parameters.stop);
}

}  // namespace
}  // namespace capstan::server
