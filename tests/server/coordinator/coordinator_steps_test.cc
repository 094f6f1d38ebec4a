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
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a step is committed when all shards have prepared it, and to all with the same words",
          "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Prepares(0, 0);
  CHECK(harness.Count<Commit>() == 0);
  harness.Prepares(1, 0);
  const Commit a = harness.TakeFromShard<Commit>(0).at(0), b = harness.TakeFromShard<Commit>(1).at(0);
  CHECK(a == b);
  CHECK(a.step == Step{0});
  CHECK(a.attempt == 0);
  CHECK(a.action == StepAction::kApply);
  CHECK(a.next.updates == 1);
  const std::vector<StepRecord> records = harness.coordinator->TakeRecords();
  REQUIRE(records.size() == 1);
  CHECK(records[0].samples == 2);
  CHECK(records[0].loss == 2.0);
  CHECK(records[0].gradient_norm == std::sqrt(2.0));
  CHECK(harness.coordinator->step() == Step{1});
}

TEST_CASE("a Prepared of another generation, life, step or size does not count", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Prepares(0, 0);
  const Prepared good = harness.MakePrepared(1, 0);
  std::vector<Prepared> bad(7, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{52};
  bad[2].step = Step{1};
  bad[3].report.segment_squares.clear();
  bad[4].report.segment_squares.push_back(1.0);
  bad[5].shard = 2;
  bad[6].shard = UINT32_MAX;
  for (const Prepared& one : bad) harness.Send(harness.shards[1].peer, one);
  CHECK(harness.Count<Commit>() == 0);
  harness.Send(harness.shards[1].peer, good);
  CHECK(harness.Count<Commit>() == 2);
}

TEST_CASE("only a shard itself speaks for it", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.config.job.steps = 1;
  harness.Run();
  harness.Prepares(0, 0);
  harness.Send(CoordinatorHarness::kStranger, harness.MakePrepared(1, 0));
  CHECK(harness.Count<Commit>() == 0);
  harness.Prepares(1, 0);
  REQUIRE(harness.Count<Commit>() == 2);
  harness.Commits(0, harness.TakeFromShard<Commit>(0).at(0));
  harness.Send(CoordinatorHarness::kStranger, Committed{1, Incarnation{51}, Generation{1}, Step{0}});
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Commits(1, harness.TakeFromShard<Commit>(1).at(0));
  CHECK(harness.coordinator->state() == State::kFinished);
  CoordinatorHarness gathering;
  gathering.Live();
  gathering.ShardsEchoTerm();
  gathering.Joins("w0");
  gathering.Joins("w1");
  gathering.AnswerReset(0);
  gathering.Send(CoordinatorHarness::kStranger, ResetDone{1, Incarnation{51}, Generation{1}});
  gathering.Send(CoordinatorHarness::kStranger, ResetBad{1, Incarnation{51}, Generation{1}, "no"});
  gathering.Send(gathering.shards[1].peer, ResetBad{1, Incarnation{41}, Generation{1}, "no"});
  CHECK(gathering.coordinator->state() == State::kResetting);
}

TEST_CASE("a Commit is repeated until it is answered, to those who have not", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Prepares(0, 0);
  harness.Prepares(1, 0);
  const Commit commit = harness.TakeFromShard<Commit>(0).at(0);
  harness.Commits(0, commit);
  harness.Forget();
  harness.Send(harness.shards[1].peer,
               Committed{1, Incarnation{49}, Generation{1}, Step{0}});  // from another incarnation
  harness.Send(harness.shards[1].peer, Committed{1, Incarnation{51}, Generation{9}, Step{0}});
  harness.Send(harness.shards[1].peer, Committed{1, Incarnation{51}, Generation{1}, Step{5}});  // an undecided step
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Commit>(0).empty());
  CHECK(harness.TakeFromShard<Commit>(1).at(0) == commit);
  harness.Commits(1, commit);
  harness.Tick(seconds(9));
  CHECK(harness.Count<Commit>() == 0);
}

TEST_CASE("who prepares a step again that is decided is given the Commit", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Prepares(0, 0);
  harness.Prepares(1, 0);
  const Commit commit = harness.TakeFromShard<Commit>(1).at(0);
  harness.Commits(0, commit);
  harness.Forget();
  harness.Prepares(1, 0);
  CHECK(harness.TakeFromShard<Commit>(1).at(0) == commit);
}

TEST_CASE("a norm above the limit is redone by all before it is committed", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.config.optimizer.clip_norm = 1.0;
  harness.Run();
  harness.Prepares(0, 0, 25.0);
  harness.Prepares(1, 0, 144.0);
  for (ShardIndex i : {0U, 1U}) {
    const Redo redo = harness.TakeFromShard<Redo>(i).at(0);
    CHECK(redo.attempt == 1);
    CHECK(redo.step == Step{0});
    CHECK(redo.clip == static_cast<float>(1.0 / (13.0 + 1e-6)));
  }
  harness.Prepares(0, 0, 25.0, 1);
  harness.Prepares(0, 0, 25.0, 0);  // late
  CHECK(harness.Count<Commit>() == 0);
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Redo>(0).empty());
  CHECK(harness.TakeFromShard<Redo>(1).size() == 1);
  harness.Prepares(1, 0, 144.0, 1);
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Commit>(i).at(0).attempt == 1);
  CHECK(harness.coordinator->TakeRecords().size() == 1);
}

TEST_CASE("a gradient that is not finite fails the job and names tensor, slot and worker", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.Prepares(0, 0);
  Prepared bad = harness.MakePrepared(1, 0, NAN);
  bad.report.slots[0].loss_sum = NAN;
  harness.Send(harness.shards[1].peer, bad);
  CHECK(harness.coordinator->state() == State::kFailed);
  const std::string& failure = harness.coordinator->failure().message();
  INFO(failure);
  CHECK(failure.find("\"b\"") != std::string::npos);
  CHECK(failure.find("slot 1 (worker \"w1\")") != std::string::npos);
  CHECK(harness.Count<Commit>() == 0);
}

TEST_CASE("a job is finished when every shard has published the last version", "[server][coordinator]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  harness.DoStep(1);
  harness.Prepares(0, 2);
  harness.Prepares(1, 2);
  const Commit last = harness.TakeFromShard<Commit>(0).at(0);
  CHECK(last.next.stop);
  harness.Commits(0, last);
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Commits(1, last);
  CHECK(harness.coordinator->state() == State::kFinished);
  const Join late = harness.Joins("w7");
  CHECK(harness.ViewOf(late).phase == JobPhase::kGathering);
  harness.Conclude();
  CHECK(harness.Take<View>(CoordinatorHarness::PeerOf(harness.MakeJoin("w0"))).back().phase == JobPhase::kDone);
  CHECK(harness.ViewOf(late).phase == JobPhase::kDone);
  harness.coordinator->Shutdown();
  harness.Tick();
  CHECK(harness.TakeFromShard<capstan::Shutdown>(1).at(0).generation == Generation{1});
}

// ---- recovery and takeover ------------------------------------------------------------------------------------------

TEST_CASE("a shard's new life starts a new generation for all", "[server][recovery]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  harness.Prepares(0, 1);
  Hello& hello = harness.shards[1].hello;
  const Hello old = hello;
  hello = {};
  hello.shard = 1;
  hello.incarnation = Incarnation{60};
  hello.config_hash = old.config_hash;
  hello.endpoint = "shard-1";
  harness.Forget();
  harness.SendHello(1);
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);
  hello.term = Term{1};
  harness.SendHello(1);
  CHECK(harness.coordinator->state() == State::kResetting);
  CHECK(harness.coordinator->generation() == Generation{2});
  CHECK(harness.Logged<RecoverRecord>().back().generation == Generation{2});
  CHECK(harness.TakeFromShard<Reset>(0).at(0).generation == Generation{2});
  CHECK(harness.TakeFromShard<Reset>(1).at(0).incarnation == Incarnation{60});
  harness.Send(harness.shards[0].peer, ResetDone{0, Incarnation{50}, Generation{1}});  // for the old incarnation
  Prepared late = harness.MakePrepared(0, 1);
  late.generation = Generation{1};
  harness.Send(harness.shards[0].peer, late);
  harness.AnswerReset(0);
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.AnswerReset(1);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->step() == Step{0});
  CHECK(harness.Logged<RunningRecord>().back().incarnations == std::vector<Incarnation>{{50}, {60}});
  harness.Send(harness.shards[0].peer, late);
  harness.Prepares(1, 0);
  CHECK(harness.Count<Commit>() == 0);
  harness.DoStep(0);
  CHECK(harness.coordinator->step() == Step{1});
}

TEST_CASE("a shard that dies again while all go back is asked again, in its new life", "[server][recovery]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  harness.Joins("w1");
  harness.AnswerReset(0);
  harness.Forget();
  harness.shards[0].hello = {};
  harness.shards[0].hello.incarnation = Incarnation{60};
  harness.shards[0].hello.config_hash = harness.shards[1].hello.config_hash;
  harness.ShardsEchoTerm();
  harness.AnswerReset(1);
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.Tick(seconds(6));
  CHECK(harness.TakeFromShard<Reset>(0).back().incarnation == Incarnation{60});
  harness.AnswerReset(0);
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE(
    "a new coordinator sends again what one shard has published, to those who have not, and decides nothing twice",
    "[server][takeover]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  harness.Prepares(0, 1);
  harness.Prepares(1, 1);
  const Commit decided = harness.TakeFromShard<Commit>(0).at(0);
  harness.Commits(0, decided);  // shard 1 never gets it
  harness.Live();
  CHECK(harness.coordinator->term() == Term{2});
  harness.SendHello(0);
  harness.SendHello(1);  // with the old term, so it does not count
  CHECK(harness.TakeFromShard<Ping>(0).at(0).term == Term{2});
  harness.shards[0].hello.term = Term{2};
  harness.SendHello(0);
  harness.SendHello(1);
  harness.Tick();
  CHECK(harness.Count<Commit>() == 0);
  CHECK(harness.coordinator->state() == State::kCollecting);
  harness.shards[1].hello.term = Term{2};
  harness.SendHello(1);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->step() == Step{2});
  CHECK(harness.TakeFromShard<Commit>(0).empty());
  Commit again = harness.TakeFromShard<Commit>(1).at(0);
  CHECK(again.term == Term{2});
  again.term = decided.term;
  CHECK(again == decided);
  CHECK(harness.Count<Reset>() == 0);
  harness.Commits(1, again);
  harness.DoStep(2);
  CHECK(harness.coordinator->state() == State::kFinished);
}

TEST_CASE("a new coordinator decides what all have prepared, as the old one would have", "[server][takeover]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  harness.Prepares(0, 1);
  harness.Prepares(1, 1);
  const Commit lost = harness.TakeFromShard<Commit>(0).at(0);
  harness.Live();
  harness.ShardsEchoTerm();
  for (ShardIndex i : {0U, 1U}) {
    Commit again = harness.TakeFromShard<Commit>(i).at(0);
    again.term = lost.term;
    CHECK(again == lost);
  }
}

TEST_CASE("a new coordinator decides a Redo again where one shard has carried it out", "[server][takeover]") {
  CoordinatorHarness harness;
  harness.config.optimizer.clip_norm = 1.0;
  harness.Run();
  harness.Prepares(0, 0, 25.0);
  harness.Prepares(1, 0, 144.0);
  const Redo redo = harness.TakeFromShard<Redo>(1).at(0);
  harness.Prepares(0, 0, 25.0, 1);
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.Count<Commit>() == 0);
  CHECK(harness.TakeFromShard<Redo>(0).empty());
  const Redo again = harness.TakeFromShard<Redo>(1).at(0);
  CHECK(again.attempt == redo.attempt);
  CHECK(again.clip == redo.clip);
  harness.Prepares(1, 0, 144.0, 1);
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Commit>(i).at(0).attempt == 1);
}

TEST_CASE("a coordinator that died between Reset and running goes on with the same generation", "[server][takeover]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Joins("w0");
  harness.Joins("w1");
  harness.AnswerReset(0);
  harness.Live();
  harness.ShardsEchoTerm();  // no worker is needed for that
  CHECK(harness.coordinator->state() == State::kResetting);
  CHECK(harness.coordinator->generation() == Generation{1});
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Reset>(i).at(0).generation == Generation{1});
  CHECK(harness.Logged<RecoverRecord>().size() == 1);
}

TEST_CASE("a new coordinator that finds a shard without its state starts a new generation", "[server][takeover]") {
  for (int what : {0, 1, 2}) {
    CoordinatorHarness harness;
    harness.Run();
    harness.DoStep(0);
    Hello& hello = harness.shards[1].hello;
    hello.version = {};
    hello.last_commit.reset();
    if (what == 0) hello.incarnation = Incarnation{60};
    if (what == 1) hello.serving = false;
    if (what == 2) hello.generation = Generation{0};
    harness.Live();
    harness.ShardsEchoTerm();
    CHECK(harness.coordinator->state() == State::kResetting);
    CHECK(harness.coordinator->generation() == Generation{2});
  }
}

TEST_CASE("a Hello whose parts cannot belong together is refused", "[server][takeover]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.DoStep(0);
  harness.Prepares(0, 1);
  harness.Prepares(1, 1);
  const Hello good = harness.shards[1].hello;
  std::vector<Hello> bad(7, good);
  bad[0].prepared->report.segment_squares.clear();
  bad[1].prepared->report.segment_squares.assign(1000, 1.0);
  bad[2].prepared->incarnation = Incarnation{52};
  bad[3].prepared->generation = Generation{0};
  bad[4].last_commit->step = Step{7};
  bad[5].last_commit.reset();
  bad[6].prepared->shard = 0;
  for (const Hello& hello : bad) {
    harness.Live();
    harness.shards[1].hello = hello;
    harness.ShardsEchoTerm();
    CHECK(harness.coordinator->state() == State::kCollecting);
    CHECK(harness.TakeFromShard<Error>(1).at(0).code == Code::kInvalid);
  }
  harness.Live();
  harness.shards[1].hello = good;
  harness.ShardsEchoTerm();
  CHECK(harness.Count<Commit>() == 2);
}

TEST_CASE("a new coordinator of a job whose last step is published everywhere is finished", "[server][takeover]") {
  CoordinatorHarness harness;
  harness.config.job.steps = 1;
  harness.Run();
  harness.DoStep(0);
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == State::kFinished);
}

// ---- without global steps -------------------------------------------------------------------------------------------

Progress MakeProgress(const CoordinatorHarness& harness, ShardIndex shard, const std::vector<std::uint64_t>& clocks) {
  Progress progress{shard, harness.shards[shard].hello.incarnation, harness.coordinator->generation(), {}, {}};
  for (const std::uint64_t clock : clocks) progress.clocks.push_back({clock});
  for (std::uint64_t step = 1; step <= clocks[shard]; ++step) {
    SlotReport report;
    report.slot = shard;  // its home slot
    report.samples = report.predictions = 1;
    report.loss_sum = static_cast<double>(step);
    progress.reports.push_back({SequenceNumber{step}, report});
  }
  return progress;
}

TEST_CASE("async: the clock is the slowest slot's on the slowest shard, and needs every slot's report",
          "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  const auto says = [&](ShardIndex shard, const std::vector<std::uint64_t>& clocks) {
    harness.Send(harness.shards[shard].peer, MakeProgress(harness, shard, clocks));
  };
  says(0, {2, 1});
  CHECK(harness.coordinator->step() == Step{0});
  says(1, {2, 0});
  CHECK(harness.coordinator->step() == Step{0});
  says(1, {2, 1});
  CHECK(harness.coordinator->step() == Step{1});
  const std::vector<StepRecord> records = harness.coordinator->TakeRecords();
  REQUIRE(records.size() == 1);
  CHECK(records[0].loss == 1.0);
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<ClockUpdate>(i).at(0).clock == SequenceNumber{1});
  harness.Tick(seconds(1));
  for (ShardIndex i : {0U, 1U})
    CHECK(harness.TakeFromShard<ClockUpdate>(i).at(0).clock == SequenceNumber{1});  // again, with the Ping
}

TEST_CASE("async: a report that a shard has dropped is not waited for; one that is still to come is",
          "[server][async]") {
  constexpr std::uint64_t kMany = Progress::kReportsMax;
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.config.job.steps = kMany + 10;
  harness.Run();
  harness.Send(harness.shards[0].peer, MakeProgress(harness, 0, {kMany + 3, kMany + 3}));
  const Progress whole = MakeProgress(harness, 1, {kMany + 3, kMany + 3});
  Progress progress = whole;
  progress.reports.resize(kMany);  // the others come with another Progress
  harness.Send(harness.shards[1].peer, progress);
  CHECK(harness.coordinator->step() == Step{kMany});
  CHECK(harness.coordinator->TakeRecords().back().samples == 2);
  progress.reports = {whole.reports[kMany + 1]};  // those of the steps before and after it are dropped
  harness.Send(harness.shards[1].peer, progress);
  CHECK(harness.coordinator->step() == Step{kMany + 3});
  const std::vector<StepRecord> records = harness.coordinator->TakeRecords();
  REQUIRE(records.size() == 3);
  CHECK(records[0].samples == 1);  // slot 0's
  CHECK(records[1].samples == 2);
  CHECK(records[2].samples == 1);
}

TEST_CASE("async: reports of a generation that has ended count for no step of the next one", "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  harness.Send(harness.shards[0].peer, MakeProgress(harness, 0, {2, 1}));  // a report of slot 0 for steps 1 and 2
  harness.RestartShard(1, {});
  for (ShardIndex i : {0U, 1U}) harness.AnswerReset(i);
  REQUIRE(harness.coordinator->state() == State::kRunning);
  REQUIRE(harness.coordinator->step() == Step{0});
  Progress again = MakeProgress(harness, 0, {1, 1});
  again.reports[0].report.loss_sum = 5.0;
  harness.Send(harness.shards[0].peer, again);
  harness.Send(harness.shards[1].peer, MakeProgress(harness, 1, {1, 1}));
  REQUIRE(harness.coordinator->step() == Step{1});
  CHECK(harness.coordinator->TakeRecords().back().loss == 3.0);  // the mean of 5, not of the former report, and 1
}

TEST_CASE("async: Progress that cannot be, or is not a shard's, moves nothing", "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  harness.Send(harness.shards[0].peer, MakeProgress(harness, 0, {1, 1}));
  const Progress good = MakeProgress(harness, 1, {1, 1});
  std::vector<Progress> bad(6, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{50};
  bad[2].clocks.push_back({1});
  bad[3].clocks.clear();
  bad[4].shard = 5;
  bad[5].reports[0].report.slot = 99;  // a slot that does not exist
  for (const Progress& progress : bad) harness.Send(harness.shards[1].peer, progress);
  harness.Send(CoordinatorHarness::kStranger, good);
  CHECK(harness.coordinator->step() == Step{0});
  harness.Send(harness.shards[1].peer, good);
  CHECK(harness.coordinator->step() == Step{1});
}

TEST_CASE("async: a job is finished when every slot has all its pushes everywhere", "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  harness.Send(harness.shards[0].peer, MakeProgress(harness, 0, {3, 3}));
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Send(harness.shards[1].peer, MakeProgress(harness, 1, {3, 3}));
  CHECK(harness.coordinator->state() == State::kFinished);
  CHECK(harness.TakeFromShard<ClockUpdate>(0).at(0).parameters.stop);
}

TEST_CASE("async: a new coordinator finishes a job at once if every shard has heard of its end", "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  for (ShardIndex i : {0U, 1U}) harness.shards[i].hello.version = Version{3};
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == State::kFinished);
}

TEST_CASE("async: a new coordinator finishes a job whose end only one shard has heard of", "[server][async]") {
  CoordinatorHarness harness(2, 2, Mode::kAsync);
  harness.Run();
  harness.shards[0].hello.version = Version{3};
  harness.shards[1].hello.version = Version{2};  // the last ClockUpdate was lost
  harness.Live();
  harness.ShardsEchoTerm();
  REQUIRE(harness.coordinator->state() == State::kRunning);
  harness.Send(harness.shards[0].peer, MakeProgress(harness, 0, {3, 3}));
  harness.Send(harness.shards[1].peer, MakeProgress(harness, 1, {3, 3}));
  CHECK(harness.coordinator->state() == State::kFinished);
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<ClockUpdate>(1).at(0).parameters.stop);
}

}  // namespace
}  // namespace capstan::server
