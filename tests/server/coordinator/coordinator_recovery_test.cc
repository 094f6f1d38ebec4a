// The version that a job goes back to, how a job ends, and which processes do not belong to it.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/view.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Coordinator::State;
using Parts = std::vector<SnapshotPart>;

// ---- going back -----------------------------------------------------------------------------------------------------

TEST_CASE("a job that lost a shard begins again with its newest snapshot and the parameters of that step",
          "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  DoStep(&bench);
  const ManifestRecord manifest = bench.Logged<ManifestRecord>().back();
  bench.Forget();
  bench.RestartShard(1, {Part(Id(1, 2), 1), Part(Id(1, 4), 1)});
  CHECK(Mentions(bench.Notices(), "server 1 was lost and came back"));
  const std::vector<Reset> resets = Resets(&bench);
  for (ShardIndex i : {0U, 1U}) {
    CHECK(resets[i].generation == Generation{2});
    CHECK(resets[i].incarnation == Incarnation{i == 0 ? 50U : 61U});
    CHECK(resets[i].snapshot == Id(1, 4));
    CHECK(resets[i].parameters == manifest.parameters);
    CHECK(resets[i].parameters.updates == 4);
    // Shard 0's part is known from its SnapshotDone, because its Hello is older than the part.
    CHECK(bench.shards[0].hello.parts.empty());
    CHECK(resets[i].sources == std::vector<Reset::Source>{{10400, "shard-0"}, {10401, "shard-1"}});
  }
  CHECK(bench.Logged<RecoverRecord>().back().snapshot == Id(1, 4));
  bench.AnswerReset(0);
  CHECK(Mentions(bench.coordinator->WaitingFor(bench.now), "server 1 (loading its snapshot)"));
  bench.AnswerReset(1);
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->step() == Step{4});
  CHECK(bench.TakeFromShard<SnapshotsKept>(1).at(0).kept == std::vector<SnapshotId>{Id(1, 2), Id(1, 4)});
  CHECK(!DoStep(&bench).snapshot);
  CHECK(DoStep(&bench).snapshot);
  CHECK(bench.coordinator->TakeRecords().back().step == Step{5});
}

TEST_CASE("what a shard said of a snapshot to the coordinator before is not believed: it may be deleted",
          "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 2);
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  const SnapshotDone before[] = {bench.MakeDone(0, 4), bench.MakeDone(1, 4)};
  bench.Live();
  bench.ShardsEchoTerm();
  for (const SnapshotDone& done : before) bench.Send(bench.shards[done.shard].peer, done);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  for (ShardIndex shard : {0U, 1U}) bench.Send(bench.shards[shard].peer, bench.MakeDone(shard, 4));
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 4));
}

TEST_CASE("a job that has taken thousands of snapshots still goes back to the newest one", "[server][recovery]") {
  CoordinatorBench bench = Bench(2, Mode::kSync, {1, 0, 2});
  bench.config.job.steps = 10000;
  bench.Run();
  constexpr std::uint64_t kSnapshots = 4100;
  RunTo(&bench, kSnapshots);
  bench.Forget();
  bench.RestartShard(1, {Part(Id(1, kSnapshots - 1), 1), Part(Id(1, kSnapshots), 1)});
  for (const Reset& reset : Resets(&bench)) {
    CHECK(reset.snapshot == Id(1, kSnapshots));
    CHECK(reset.sources.size() == 2);
  }
  CHECK(bench.coordinator->state() == State::kResetting);
}

TEST_CASE("parts that no manifest of the log names are not remembered, however many a Hello names",
          "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  // Shard 1's own two parts come last, after more parts than any job has snapshots. All are of the same few versions.
  Parts parts;
  for (std::uint64_t i = 0; i < 5000; ++i) parts.push_back({Id(1, i % 5), 1, i});
  parts.push_back(Part(Id(1, 2), 1));
  parts.push_back(Part(Id(1, 4), 1));
  bench.Forget();
  bench.RestartShard(1, parts);
  CHECK(Resets(&bench)[1].snapshot == Id(1, 4));
}

TEST_CASE("what was being written when a shard was lost is of no use: its parts do not count", "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 2);
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  bench.Keeps(0, 4);
  const SnapshotDone late = bench.MakeDone(0, 4), lost = bench.MakeDone(1, 4);
  bench.RestartShard(1, {Part(Id(1, 2), 1)});
  for (const SnapshotDone& done : {late, lost}) bench.Send(bench.shards[done.shard].peer, done);
  AnswerResets(&bench);
  for (const SnapshotDone& done : {late, lost}) bench.Send(bench.shards[done.shard].peer, done);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  CHECK(bench.coordinator->step() == Step{2});
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);  // the same version in the new history
  bench.Send(bench.shards[0].peer, late);
  bench.Keeps(1, 4);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  bench.Keeps(0, 4);
  CHECK(bench.coordinator->newest_snapshot() == Id(2, 4));
}

TEST_CASE("a snapshot with a missing or a bad part is passed over for the one before it, and in the end none is left",
          "[server][recovery]") {
  CoordinatorBench bench = Bench(2, Mode::kSync, {2, 0, 3});
  bench.Run();
  RunTo(&bench, 6);
  bench.Forget();
  bench.RestartShard(1, {Part(Id(1, 2), 1), Part(Id(1, 4), 1)});  // its part of 6 is gone
  std::vector<Reset> resets = Resets(&bench);
  CHECK(Mentions(bench.Notices(), "the snapshot of version 6 cannot be used: no server has shard 1 of its 2"));
  CHECK(Mentions(bench.Notices(), "going back to the one of version 4"));
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[1].generation == Generation{3});
  bench.AnswerReset(0);
  const Incarnation life = bench.shards[1].hello.incarnation;
  bench.Send(bench.shards[1].peer, ResetBad{1, life, Generation{2}, "late"});
  bench.Send(bench.shards[1].peer, ResetBad{1, Incarnation{51}, Generation{3}, "of another life"});
  CHECK(bench.coordinator->generation() == Generation{3});
  bench.Send(bench.shards[1].peer, ResetBad{1, life, Generation{3}, "block 7 is damaged"});
  CHECK(Mentions(bench.Notices(), "version 4 cannot be used: server 1: block 7 is damaged"));
  resets = Resets(&bench);
  CHECK(resets[0].snapshot == Id(1, 2));
  CHECK(resets[0].generation == Generation{4});
  CHECK(bench.metrics->snapshots_bad.value() == 2);

  SECTION("the third one is good") {
    AnswerResets(&bench);
    CHECK(bench.coordinator->step() == Step{2});
    CHECK(KeptVersions(*bench.coordinator) == std::vector<std::uint64_t>{2});
    bench.Live();
    CHECK(KeptVersions(*bench.coordinator) == std::vector<std::uint64_t>{2});
  }
  SECTION("the third one is bad too") {
    bench.Send(bench.shards[0].peer, ResetBad{0, Incarnation{50}, Generation{4}, "block 1 is damaged"});
    CHECK(bench.coordinator->state() == State::kFailed);
    CHECK(bench.coordinator->failure().code() == Code::kCorrupt);
    CHECK(Mentions(bench.coordinator->failure().message(), "server 0: block 1 is damaged"));
    CHECK(Mentions(bench.coordinator->failure().message(), "there is no older one"));
  }
}

TEST_CASE("a coordinator that dies while shards go back goes on with the same Reset", "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  bench.shards[0].hello.parts = {Part(Id(1, 4), 0)};
  bench.RestartShard(1, {Part(Id(1, 4), 1)});
  REQUIRE(bench.coordinator->state() == State::kResetting);
  bench.Live();
  bench.ShardsEchoTerm();
  const std::vector<Reset> resets = Resets(&bench);
  CHECK(resets[0].generation == Generation{2});
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[0].term == Term{2});
  AnswerResets(&bench);
  CHECK(bench.coordinator->step() == Step{4});
  CHECK(bench.Logged<RecoverRecord>().size() == 2);
}

TEST_CASE("a job of two servers is continued by one that has both parts, and by three", "[server][recovery]") {
  CoordinatorBench first = Bench(2);
  first.Run();
  RunTo(&first, 4);
  const Parts parts = {Part(Id(1, 4), 0), Part(Id(1, 4), 1)};
  for (const std::uint32_t count : {1U, 3U}) {
    CoordinatorBench bench = Bench(count);
    bench.log = first.log;
    if (count == 1) bench.shards[0].hello.parts = parts;
    if (count == 3) {
      bench.shards[0].hello.parts = {parts[0]};
      bench.shards[2].hello.parts = {parts[1]};  // an operator carried it there
    }
    for (CoordinatorBench::FakeShard& shard : bench.shards) {
      shard.hello.generation = Generation{1};
      shard.hello.incarnation = Incarnation{90};
    }
    bench.Live();
    bench.ShardsEchoTerm();
    const std::vector<Reset> resets = Resets(&bench);
    CHECK(resets[0].snapshot == Id(1, 4));
    CHECK(resets[0].sources.at(0).endpoint == "shard-0");
    CHECK(resets[0].sources.at(1).endpoint == (count == 1 ? "shard-0" : "shard-2"));
    AnswerResets(&bench);
    for (const char* name : {"w0", "w1"}) bench.Joins(name);
    DoStep(&bench);
    CHECK(bench.coordinator->step() == Step{5});
  }
}

// ---- the end --------------------------------------------------------------------------------------------------------

TEST_CASE("a job that is asked to stop takes a last snapshot, and then stops", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  DoStep(&bench);
  bench.coordinator->RequestStop(bench.now);
  bench.Tick();
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Pin>(i).at(0).version == Version{1});
  for (ShardIndex i : {0U, 1U}) bench.Prepares(i, 1);
  CHECK(bench.Count<Commit>() == 0);  // no step is decided any more
  bench.Keeps(0, 1);
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Keeps(1, 1);
  CHECK(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 1));
  CHECK(bench.coordinator->step() == Step{1});
}

TEST_CASE("a stop waits for the Commit that is on its way, and pins the version it publishes", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  for (ShardIndex i : {0U, 1U}) bench.Prepares(i, 0);
  const Commit commit = bench.TakeFromShard<Commit>(0).at(0);
  bench.Commits(0, commit);
  bench.coordinator->RequestStop(bench.now);
  bench.Tick(milliseconds(500));
  CHECK(bench.Count<Pin>() == 0);
  bench.Commits(1, commit);
  bench.Tick();
  CHECK(bench.TakeFromShard<Pin>(1).at(0).version == Version{1});
}

TEST_CASE("a stop waits for the snapshot under way when it is of the last version, and takes another when not",
          "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  DoStep(&bench);
  bench.coordinator->RequestStop(bench.now);
  bench.Tick();
  bench.Keeps(0, 2);
  SECTION("it is written") {
    bench.Keeps(1, 2);
    CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  }
  SECTION("it cannot be written") {
    SnapshotDone failed = bench.MakeDone(1, 2);
    failed.failure = "the disk was full for a moment";
    bench.Send(bench.shards[1].peer, failed);
  }
  CHECK(bench.coordinator->state() == State::kRunning);
  bench.Tick(seconds(1));
  for (ShardIndex i : {0U, 1U}) {
    CHECK(bench.TakeFromShard<Pin>(i).back().version == Version{3});
    bench.Keeps(i, 3);
  }
  CHECK(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 3));
}

TEST_CASE("a stop does not wait for what cannot be had", "[server][stop]") {
  SECTION("a shard that cannot write") {
    CoordinatorBench bench = Bench();
    bench.Run();
    DoStep(&bench);
    bench.coordinator->RequestStop(bench.now);
    bench.Tick();
    SnapshotDone failed = bench.MakeDone(1, 1);
    failed.failure = "the disk is full";
    bench.Send(bench.shards[1].peer, failed);
    CHECK(bench.coordinator->state() == State::kStopped);
    CHECK(bench.coordinator->newest_snapshot().IsNone());
  }
  SECTION("no snapshots in this job") {
    CoordinatorBench bench = Bench(2, Mode::kSync, {0, 0, 2});
    bench.Run();
    DoStep(&bench);
    bench.coordinator->RequestStop(bench.now);
    bench.Tick();
    CHECK(bench.coordinator->state() == State::kStopped);
    CHECK(bench.Count<Pin>() == 0);
  }
  SECTION("a job that does not run") {
    CoordinatorBench bench = Bench();
    bench.Live();
    bench.coordinator->RequestStop(bench.now);
    bench.Tick();
    CHECK(bench.coordinator->state() == State::kStopped);
  }
  SECTION("a version that is kept already") {
    CoordinatorBench bench = Bench();
    bench.Run();
    RunTo(&bench, 2);
    bench.coordinator->RequestStop(bench.now);
    bench.Tick();
    CHECK(bench.coordinator->state() == State::kStopped);
  }
  SECTION("a shard that does not answer") {
    CoordinatorBench bench = Bench();
    bench.Run();
    DoStep(&bench);
    bench.coordinator->RequestStop(bench.now);
    bench.Pass(seconds(59), {bench.MakeJoin("w0")});
    CHECK(bench.coordinator->state() == State::kRunning);
    bench.Pass(seconds(2), {bench.MakeJoin("w0")});
    CHECK(bench.coordinator->state() == State::kStopped);
    CHECK(Mentions(bench.Notices(), "the last snapshot is not complete"));
  }
  SECTION("a shard that is lost") {
    CoordinatorBench bench = Bench();
    bench.Run();
    DoStep(&bench);
    bench.coordinator->RequestStop(bench.now);
    bench.RestartShard(1, {});
    bench.Tick();
    CHECK(bench.coordinator->state() == State::kStopped);
  }
}

TEST_CASE("async: a stop keeps what the slowest slot has reached", "[server][stop][async]") {
  CoordinatorBench bench = Bench(2, Mode::kAsync);
  bench.Run();
  Clocks(&bench, 1);
  bench.coordinator->RequestStop(bench.now);
  Clocks(&bench, 2);  // counted after the snapshot, if at all
  bench.Tick();
  for (ShardIndex i : {0U, 1U}) {
    CHECK(bench.TakeFromShard<Pin>(i).at(0).version == Version{1});
    bench.Keeps(i, 1);
  }
  CHECK(bench.coordinator->state() == State::kStopped);
}

TEST_CASE("the last version is kept when the job is done, so that whoever continues it has it", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.config.job.steps = 3;
  bench.Run();
  for (int i = 0; i < 3; ++i) DoStep(&bench);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 2);
  bench.Tick(milliseconds(500));
  CHECK(bench.coordinator->state() == State::kFinished);
  CHECK(!bench.coordinator->SnapshotsSettled());
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Pin>(i).back().version == Version{3});
  SECTION("it is written") {
    for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 3);
    CHECK(bench.coordinator->newest_snapshot() == Id(1, 3));
  }
  SECTION("it cannot be") {
    SnapshotDone failed = bench.MakeDone(1, 3);
    failed.failure = "the disk is full";
    bench.Send(bench.shards[1].peer, failed);
  }
  CHECK(bench.coordinator->SnapshotsSettled());
  CHECK(bench.coordinator->state() == State::kFinished);
}

TEST_CASE("a shard lost after the last step finds the workers still there, for its steps are replayed",
          "[server][stop][recovery]") {
  CoordinatorBench bench = Bench();
  bench.config.job.steps = 3;
  bench.Run();
  RunTo(&bench, 2);
  DoStep(&bench);
  REQUIRE(bench.coordinator->state() == State::kFinished);
  const std::vector<Join> workers = {bench.MakeJoin("w0"), bench.MakeJoin("w1")};
  for (const Join& worker : workers) {
    bench.Send(CoordinatorBench::PeerOf(worker), bench.MakeBeat(worker));
    CHECK(bench.ViewOf(worker).phase == JobPhase::kGathering);
  }
  bench.Send(CoordinatorBench::kStranger, Beat{});  // from a reader: it may read the last version
  CHECK(bench.Take<View>(CoordinatorBench::kStranger).back().phase == JobPhase::kDone);

  bench.RestartShard(1, {Part(Id(1, 2), 1)});
  CHECK(bench.coordinator->state() == State::kResetting);
  AnswerResets(&bench);
  CHECK(bench.coordinator->worker_count() == 2);
  for (const Join& worker : workers) {
    const View view = bench.ViewOf(worker);
    CHECK(view.phase == JobPhase::kRunning);
    CHECK(view.generation == Generation{2});
    CHECK(view.step == Step{2});
    CHECK(view.slots.size() == 1);
  }

  DoStep(&bench);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 3);
  REQUIRE(bench.coordinator->state() == State::kFinished);
  REQUIRE(bench.coordinator->SnapshotsSettled());
  for (const Join& worker : workers) CHECK(bench.ViewOf(worker).phase == JobPhase::kGathering);
  bench.Conclude();
  for (const Join& worker : workers) CHECK(bench.ViewOf(worker).phase == JobPhase::kDone);
}

TEST_CASE("a job that ends without its final weights is over for the workers too", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.config.job.steps = 2;
  bench.Run();
  for (int i = 0; i < 2; ++i) DoStep(&bench);
  REQUIRE(bench.coordinator->state() == State::kFinished);
  bench.coordinator->Shutdown();
  const Join w0 = bench.MakeJoin("w0");
  bench.Send(CoordinatorBench::PeerOf(w0), bench.MakeBeat(w0));
  CHECK(bench.ViewOf(w0).phase == JobPhase::kDone);
  CHECK(!bench.coordinator->concluded());
}

TEST_CASE("a coordinator started on the log of a job that is done has nothing left to do", "[server][stop]") {
  CoordinatorBench bench = Bench();
  bench.config.job.steps = 2;
  bench.Run();
  for (int i = 0; i < 2; ++i) DoStep(&bench);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 2);
  REQUIRE(bench.coordinator->state() == State::kFinished);
  CHECK(!bench.coordinator->concluded());
  bench.Conclude();
  bench.Conclude();
  CHECK(bench.Logged<DoneRecord>().size() == 1);

  CoordinatorBench again = Bench(3);  // with another number of servers at that
  again.config.job.steps = 2;
  again.log = bench.log;
  for (CoordinatorBench::FakeShard& shard : again.shards) {
    shard.hello.incarnation = Incarnation{90};
    shard.hello.generation = Generation{1};
  }
  again.Live();
  CHECK(again.coordinator->concluded());
  CHECK(again.coordinator->state() == State::kFinished);
  again.ShardsEchoTerm();
  const Join w0 = again.Joins("w0");
  again.Keeps(2, 2);
  again.Tick(seconds(1));
  CHECK(again.coordinator->state() == State::kFinished);
  CHECK(again.Count<Reset>() == 0);
  CHECK(again.Count<Pin>() == 0);
  CHECK(again.ViewOf(w0).phase == JobPhase::kDone);
  CHECK(again.Logged<RecoverRecord>().size() == 1);
  again.coordinator->Shutdown();
  again.Tick();
  CHECK(again.Count<Shutdown>() == 3);
}

// ---- parts that do not belong together ------------------------------------------------------------------------------

TEST_CASE("a job is not continued with settings that its bits depend on, and the first of them is named",
          "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 2);
  SECTION("another momentum") {
    bench.config.optimizer.beta1 = 0.25;
    bench.Live();
    CHECK(bench.coordinator->state() == State::kFailed);
    CHECK(bench.coordinator->failure().code() == Code::kRefused);
    CHECK(Mentions(bench.coordinator->failure().message(), "[optimizer]"));
    CHECK(Mentions(bench.coordinator->failure().message(), "betas = [0.9, 0.999]"));
    CHECK(Mentions(bench.coordinator->failure().message(), "betas = [0.25, 0.999]"));
    CHECK(Mentions(bench.coordinator->failure().message(), "its state on disk was made with it"));
    bench.ShardsEchoTerm();
    bench.Joins("w0");
    bench.Tick(seconds(1));
    CHECK(bench.coordinator->state() == State::kFailed);
    CHECK(bench.Count<Reset>() == 0);
    bench.config.optimizer.beta1 = 0.9;  // the refusal has changed nothing
    bench.Live();
    CHECK(bench.coordinator->state() == State::kCollecting);
    CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  }
  SECTION("other members, limits and snapshots, and more steps") {
    bench.config.job.steps += 1;
    bench.config.cluster.workers = bench.config.cluster.min_workers = 1;
    bench.config.limits.lease = 99;
    bench.config.snapshot = {7, 7, 7};
    bench.Live();
    CHECK(bench.coordinator->state() == State::kCollecting);
  }
}

TEST_CASE("a directory of another job is refused", "[server][hello]") {
  CoordinatorBench bench = Bench();
  bench.Live();
  bench.shards[0].hello.job = JobId{9, 9};
  bench.ShardsEchoTerm();
  const Error error = bench.TakeFromShard<Error>(0).at(0);
  CHECK(error.code == Code::kRefused);
  CHECK(error.incarnation == bench.shards[0].hello.incarnation);
  CHECK(Mentions(error.message, "another job"));
  CHECK(bench.coordinator->shards().empty());
  bench.shards[0].hello.job = JobId{1, 2};
  bench.SayHello(0);
  CHECK(bench.coordinator->shards().size() == 2);
}

TEST_CASE("a shard that is ahead of this coordinator is not obeyed, believed or refused, and people are told",
          "[server][hello]") {
  struct Ahead {
    const char* word;
    void (*change)(Hello*);
  };
  const Ahead all[] = {
      {"term 9", [](Hello* hello) { hello->term = Term{9}; }},
      {"generation 7", [](Hello* hello) { hello->generation = Generation{7}; }},
      {"generation 8", [](Hello* hello) { hello->newest_kept = Id(8, 3); }},
  };
  const bool accept_rollback = GENERATE(false, true);  // applies to a job that gathers, not to a running one
  for (const Ahead& one : all) {
    CoordinatorBench bench = Bench();
    bench.accept_rollback = accept_rollback;
    bench.Run();
    Hello hello = bench.shards[1].hello;
    hello.incarnation = Incarnation{60};
    one.change(&hello);
    for (int i = 0; i < 3; ++i) bench.Send(bench.shards[1].peer, hello);
    CHECK(bench.Count<Error>() == 3);  // it counts as heard, but is not followed
    CHECK(bench.Count<Reset>() == 0);
    CHECK(bench.coordinator->state() == State::kRunning);
    CHECK(bench.coordinator->generation() == Generation{1});
    CHECK(bench.coordinator->term() == Term{1});
    CHECK(bench.coordinator->shards().at(1).incarnation == Incarnation{51});
    CHECK(Mentions(bench.Notices(), "server 1"));
    CHECK(Mentions(bench.Notices(), one.word));
    CHECK(bench.Notices().find(one.word) == bench.Notices().rfind(one.word));  // once
    CHECK(Mentions(bench.coordinator->WaitingFor(bench.now), one.word));
    CHECK(Mentions(bench.coordinator->WaitingFor(bench.now), "another coordinator has taken over"));
  }
}

TEST_CASE("an old log counts where the rollback is accepted: all shards go back to its newest snapshot",
          "[server][recovery]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  for (Hello* hello : {&bench.shards[0].hello, &bench.shards[1].hello}) {  // from after the log was copied
    hello->term = Term{7};
    hello->generation = Generation{3};
    hello->newest_kept = Id(3, 9);
    hello->serving = false;  // all have been restarted
    hello->last_commit.reset();
  }
  bench.shards[0].hello.parts = {Part(Id(1, 4), 0), Part(Id(3, 9), 0)};
  bench.shards[1].hello.parts = {Part(Id(1, 4), 1), Part(Id(3, 9), 1)};
  bench.Live();
  for (ShardIndex shard : {0U, 1U}) bench.SayHello(shard);
  CHECK(Mentions(bench.Notices(), "go on from the snapshot of version 4 by --accept-rollback"));
  CHECK(bench.Count<Reset>() == 0);

  bench.accept_rollback = true;
  bench.Live();
  for (ShardIndex shard : {0U, 1U}) bench.SayHello(shard);
  CHECK(bench.coordinator->term() == Term{8});
  CHECK(bench.Count<Reset>() == 0);  // no shard has echoed that term yet
  bench.ShardsEchoTerm();
  const std::vector<Reset> resets = Resets(&bench);
  for (const Reset& reset : resets) {
    CHECK(reset.term == Term{8});
    CHECK(reset.generation == Generation{4});
    CHECK(reset.snapshot == Id(1, 4));
  }
  AnswerResets(&bench);
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->step() == Step{4});
  CHECK(bench.Logged<TermRecord>().back().term == Term{8});
}

}  // namespace
}  // namespace capstan::server
