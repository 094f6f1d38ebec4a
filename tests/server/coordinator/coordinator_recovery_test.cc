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
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  DoStep(&harness);
  const ManifestRecord manifest = harness.Logged<ManifestRecord>().back();
  harness.Forget();
  harness.RestartShard(1, {Part(Id(1, 2), 1), Part(Id(1, 4), 1)});
  CHECK(Mentions(harness.Notices(), "server 1 was lost and came back"));
  const std::vector<Reset> resets = Resets(&harness);
  for (ShardIndex i : {0U, 1U}) {
    CHECK(resets[i].generation == Generation{2});
    CHECK(resets[i].incarnation == Incarnation{i == 0 ? 50U : 61U});
    CHECK(resets[i].snapshot == Id(1, 4));
    CHECK(resets[i].parameters == manifest.parameters);
    CHECK(resets[i].parameters.updates == 4);
    // Shard 0's part is known from its SnapshotDone, because its Hello is older than the part.
    CHECK(harness.shards[0].hello.parts.empty());
    CHECK(resets[i].sources == std::vector<Reset::Source>{{10400, "shard-0"}, {10401, "shard-1"}});
  }
  CHECK(harness.Logged<RecoverRecord>().back().snapshot == Id(1, 4));
  harness.AnswerReset(0);
  CHECK(Mentions(harness.coordinator->WaitingFor(harness.now), "server 1 (loading its snapshot)"));
  harness.AnswerReset(1);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->step() == Step{4});
  CHECK(harness.TakeFromShard<RetainedSnapshots>(1).at(0).ids == std::vector<SnapshotId>{Id(1, 2), Id(1, 4)});
  CHECK(!DoStep(&harness).snapshot);
  CHECK(DoStep(&harness).snapshot);
  CHECK(harness.coordinator->TakeRecords().back().step == Step{5});
}

TEST_CASE("what a shard said of a snapshot to the coordinator before is not believed: it may be deleted",
          "[server][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 2);
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  const SnapshotDone before[] = {harness.MakeDone(0, 4), harness.MakeDone(1, 4)};
  harness.Live();
  harness.ShardsEchoTerm();
  for (const SnapshotDone& done : before) harness.Send(harness.shards[done.shard].peer, done);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  for (ShardIndex shard : {0U, 1U}) harness.Send(harness.shards[shard].peer, harness.MakeDone(shard, 4));
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 4));
}

TEST_CASE("a job that has taken thousands of snapshots still goes back to the newest one", "[server][recovery]") {
  CoordinatorHarness harness = Harness(2, Mode::kSync, {1, 0, 2});
  harness.config.job.steps = 10000;
  harness.Run();
  constexpr std::uint64_t kSnapshots = 4100;
  RunTo(&harness, kSnapshots);
  harness.Forget();
  harness.RestartShard(1, {Part(Id(1, kSnapshots - 1), 1), Part(Id(1, kSnapshots), 1)});
  for (const Reset& reset : Resets(&harness)) {
    CHECK(reset.snapshot == Id(1, kSnapshots));
    CHECK(reset.sources.size() == 2);
  }
  CHECK(harness.coordinator->state() == State::kResetting);
}

TEST_CASE("parts that no manifest of the log names are not remembered, however many a Hello names",
          "[server][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  // The two parts that manifests name come last, after 5000 others that no manifest names.
  Parts parts;
  for (std::uint64_t i = 0; i < 5000; ++i) parts.push_back({Id(1, i % 5), 1, i});
  parts.push_back(Part(Id(1, 2), 1));
  parts.push_back(Part(Id(1, 4), 1));
  harness.Forget();
  harness.RestartShard(1, parts);
  CHECK(Resets(&harness)[1].snapshot == Id(1, 4));
}

TEST_CASE("what was being written when a shard was lost is of no use: its parts do not count", "[server][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 2);
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  harness.Keeps(0, 4);
  const SnapshotDone late = harness.MakeDone(0, 4), lost = harness.MakeDone(1, 4);
  harness.RestartShard(1, {Part(Id(1, 2), 1)});
  for (const SnapshotDone& done : {late, lost}) harness.Send(harness.shards[done.shard].peer, done);
  AnswerResets(&harness);
  for (const SnapshotDone& done : {late, lost}) harness.Send(harness.shards[done.shard].peer, done);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  CHECK(harness.coordinator->step() == Step{2});
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);  // the same version in the new timeline
  harness.Send(harness.shards[0].peer, late);
  harness.Keeps(1, 4);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  harness.Keeps(0, 4);
  CHECK(harness.coordinator->newest_snapshot() == Id(2, 4));
}

TEST_CASE("a snapshot with a missing or a bad part is passed over for the one before it, and in the end none is left",
          "[server][recovery]") {
  CoordinatorHarness harness = Harness(2, Mode::kSync, {2, 0, 3});
  harness.Run();
  RunTo(&harness, 6);
  harness.Forget();
  harness.RestartShard(1, {Part(Id(1, 2), 1), Part(Id(1, 4), 1)});  // its part of version 6 is gone
  std::vector<Reset> resets = Resets(&harness);
  CHECK(Mentions(harness.Notices(), "the snapshot of version 6 cannot be used: no server has shard 1 of its 2"));
  CHECK(Mentions(harness.Notices(), "going back to the one of version 4"));
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[1].generation == Generation{3});
  harness.AnswerReset(0);
  const Incarnation incarnation = harness.shards[1].hello.incarnation;
  harness.Send(harness.shards[1].peer, ResetBad{1, incarnation, Generation{2}, "late"});
  harness.Send(harness.shards[1].peer, ResetBad{1, Incarnation{51}, Generation{3}, "of another life"});
  CHECK(harness.coordinator->generation() == Generation{3});
  harness.Send(harness.shards[1].peer, ResetBad{1, incarnation, Generation{3}, "block 7 is damaged"});
  CHECK(Mentions(harness.Notices(), "version 4 cannot be used: server 1: block 7 is damaged"));
  resets = Resets(&harness);
  CHECK(resets[0].snapshot == Id(1, 2));
  CHECK(resets[0].generation == Generation{4});
  CHECK(harness.metrics->snapshots_bad.value() == 2);

  SECTION("the third one is good") {
    AnswerResets(&harness);
    CHECK(harness.coordinator->step() == Step{2});
    CHECK(KeptVersions(*harness.coordinator) == std::vector<std::uint64_t>{2});
    harness.Live();
    CHECK(KeptVersions(*harness.coordinator) == std::vector<std::uint64_t>{2});
  }
  SECTION("the third one is bad too") {
    harness.Send(harness.shards[0].peer, ResetBad{0, Incarnation{50}, Generation{4}, "block 1 is damaged"});
    CHECK(harness.coordinator->state() == State::kFailed);
    CHECK(harness.coordinator->failure().code() == Code::kCorrupt);
    CHECK(Mentions(harness.coordinator->failure().message(), "server 0: block 1 is damaged"));
    CHECK(Mentions(harness.coordinator->failure().message(), "there is no older one"));
  }
}

TEST_CASE("a coordinator that dies while shards go back goes on with the same Reset", "[server][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  harness.shards[0].hello.parts = {Part(Id(1, 4), 0)};
  harness.RestartShard(1, {Part(Id(1, 4), 1)});
  REQUIRE(harness.coordinator->state() == State::kResetting);
  harness.Live();
  harness.ShardsEchoTerm();
  const std::vector<Reset> resets = Resets(&harness);
  CHECK(resets[0].generation == Generation{2});
  CHECK(resets[0].snapshot == Id(1, 4));
  CHECK(resets[0].term == Term{2});
  AnswerResets(&harness);
  CHECK(harness.coordinator->step() == Step{4});
  CHECK(harness.Logged<RecoverRecord>().size() == 2);
}

TEST_CASE("a job of two servers is continued by one that has both parts, and by three", "[server][recovery]") {
  CoordinatorHarness first = Harness(2);
  first.Run();
  RunTo(&first, 4);
  const Parts parts = {Part(Id(1, 4), 0), Part(Id(1, 4), 1)};
  for (const std::uint32_t count : {1U, 3U}) {
    CoordinatorHarness harness = Harness(count);
    harness.log = first.log;
    if (count == 1) harness.shards[0].hello.parts = parts;
    if (count == 3) {
      harness.shards[0].hello.parts = {parts[0]};
      harness.shards[2].hello.parts = {parts[1]};  // an operator carried it there
    }
    for (CoordinatorHarness::FakeShard& shard : harness.shards) {
      shard.hello.generation = Generation{1};
      shard.hello.incarnation = Incarnation{90};
    }
    harness.Live();
    harness.ShardsEchoTerm();
    harness.SendHello(1 % count);  // of three servers the second waited for the part that the third has
    const std::vector<Reset> resets = Resets(&harness);
    CHECK(resets[0].snapshot == Id(1, 4));
    CHECK(resets[0].sources.at(0).endpoint == "shard-0");
    CHECK(resets[0].sources.at(1).endpoint == (count == 1 ? "shard-0" : "shard-2"));
    AnswerResets(&harness);
    for (const char* name : {"w0", "w1"}) harness.Joins(name);
    DoStep(&harness);
    CHECK(harness.coordinator->step() == Step{5});
  }
}

// ---- the end --------------------------------------------------------------------------------------------------------

TEST_CASE("a job that is asked to stop takes a last snapshot, and then stops", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  DoStep(&harness);
  harness.coordinator->RequestStop(harness.now);
  harness.Tick();
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Pin>(i).at(0).version == Version{1});
  for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 1);
  CHECK(harness.Count<Commit>() == 0);  // no step is decided any more
  harness.Keeps(0, 1);
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Keeps(1, 1);
  CHECK(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 1));
  CHECK(harness.coordinator->step() == Step{1});
}

TEST_CASE("a stop waits for the Commit that is in flight, and pins the version it publishes", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  for (ShardIndex i : {0U, 1U}) harness.Prepares(i, 0);
  const Commit commit = harness.TakeFromShard<Commit>(0).at(0);
  harness.Commits(0, commit);
  harness.coordinator->RequestStop(harness.now);
  harness.Tick(milliseconds(500));
  CHECK(harness.Count<Pin>() == 0);
  harness.Commits(1, commit);
  harness.Tick();
  CHECK(harness.TakeFromShard<Pin>(1).at(0).version == Version{1});
}

TEST_CASE("a stop waits for the snapshot under way when it is of the last version, and takes another when not",
          "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  DoStep(&harness);
  harness.coordinator->RequestStop(harness.now);
  harness.Tick();
  harness.Keeps(0, 2);
  SECTION("it is written") {
    harness.Keeps(1, 2);
    CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  }
  SECTION("it cannot be written") {
    SnapshotDone failed = harness.MakeDone(1, 2);
    failed.failure = "the disk was full for a moment";
    harness.Send(harness.shards[1].peer, failed);
  }
  CHECK(harness.coordinator->state() == State::kRunning);
  harness.Tick(seconds(1));
  for (ShardIndex i : {0U, 1U}) {
    CHECK(harness.TakeFromShard<Pin>(i).back().version == Version{3});
    harness.Keeps(i, 3);
  }
  CHECK(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 3));
}

TEST_CASE("a stop does not wait for what cannot be had", "[server][stop]") {
  SECTION("a shard that cannot write") {
    CoordinatorHarness harness = Harness();
    harness.Run();
    DoStep(&harness);
    harness.coordinator->RequestStop(harness.now);
    harness.Tick();
    SnapshotDone failed = harness.MakeDone(1, 1);
    failed.failure = "the disk is full";
    harness.Send(harness.shards[1].peer, failed);
    CHECK(harness.coordinator->state() == State::kStopped);
    CHECK(harness.coordinator->newest_snapshot().IsNone());
  }
  SECTION("a version whose snapshot was given up before") {
    CoordinatorHarness harness = Harness();
    harness.Run();
    DoStep(&harness);
    REQUIRE(DoStep(&harness).snapshot);
    SnapshotDone failed = harness.MakeDone(1, 2);
    failed.failure = "the disk was full for a moment";
    harness.Send(harness.shards[1].peer, failed);
    harness.coordinator->RequestStop(harness.now);
    harness.Tick(seconds(1));
    CHECK(harness.coordinator->state() == State::kStopped);
    CHECK(harness.Count<Pin>() == 0);
  }
  SECTION("no snapshots in this job") {
    CoordinatorHarness harness = Harness(2, Mode::kSync, {0, 0, 2});
    harness.Run();
    DoStep(&harness);
    harness.coordinator->RequestStop(harness.now);
    harness.Tick();
    CHECK(harness.coordinator->state() == State::kStopped);
    CHECK(harness.Count<Pin>() == 0);
  }
  SECTION("a job that does not run") {
    CoordinatorHarness harness = Harness();
    harness.Live();
    harness.coordinator->RequestStop(harness.now);
    harness.Tick();
    CHECK(harness.coordinator->state() == State::kStopped);
  }
  SECTION("a version that is kept already") {
    CoordinatorHarness harness = Harness();
    harness.Run();
    RunTo(&harness, 2);
    harness.coordinator->RequestStop(harness.now);
    harness.Tick();
    CHECK(harness.coordinator->state() == State::kStopped);
  }
  SECTION("a shard that does not answer") {
    CoordinatorHarness harness = Harness();
    harness.Run();
    DoStep(&harness);
    harness.coordinator->RequestStop(harness.now);
    harness.Pass(seconds(59), {harness.MakeJoin("w0")});
    CHECK(harness.coordinator->state() == State::kRunning);
    harness.Pass(seconds(2), {harness.MakeJoin("w0")});
    CHECK(harness.coordinator->state() == State::kStopped);
    CHECK(Mentions(harness.Notices(), "the last snapshot is not complete"));
  }
  SECTION("a shard that is lost") {
    CoordinatorHarness harness = Harness();
    harness.Run();
    DoStep(&harness);
    harness.coordinator->RequestStop(harness.now);
    harness.RestartShard(1, {});
    harness.Tick();
    CHECK(harness.coordinator->state() == State::kStopped);
  }
}

TEST_CASE("async: a stop keeps what the slowest slot has reached", "[server][stop][async]") {
  CoordinatorHarness harness = Harness(2, Mode::kAsync);
  harness.Run();
  Clocks(&harness, 1);
  harness.coordinator->RequestStop(harness.now);
  Clocks(&harness, 2);  // counted after the snapshot, if at all
  harness.Tick();
  for (ShardIndex i : {0U, 1U}) {
    CHECK(harness.TakeFromShard<Pin>(i).at(0).version == Version{1});
    harness.Keeps(i, 1);
  }
  CHECK(harness.coordinator->state() == State::kStopped);
}

TEST_CASE("the last version is kept when the job is done, so that whoever continues it has it", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.config.job.steps = 3;
  harness.Run();
  for (int i = 0; i < 3; ++i) DoStep(&harness);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 2);
  harness.Tick(milliseconds(500));
  CHECK(harness.coordinator->state() == State::kFinished);
  CHECK(!harness.coordinator->SnapshotsSettled());
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Pin>(i).back().version == Version{3});
  SECTION("it is written") {
    for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 3);
    CHECK(harness.coordinator->newest_snapshot() == Id(1, 3));
  }
  SECTION("it cannot be") {
    SnapshotDone failed = harness.MakeDone(1, 3);
    failed.failure = "the disk is full";
    harness.Send(harness.shards[1].peer, failed);
  }
  CHECK(harness.coordinator->SnapshotsSettled());
  CHECK(harness.coordinator->state() == State::kFinished);
}

TEST_CASE("a shard lost after the last step finds the workers still there, for its steps are replayed",
          "[server][stop][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.config.job.steps = 3;
  harness.Run();
  RunTo(&harness, 2);
  DoStep(&harness);
  REQUIRE(harness.coordinator->state() == State::kFinished);
  const std::vector<Join> workers = {harness.MakeJoin("w0"), harness.MakeJoin("w1")};
  for (const Join& worker : workers) {
    harness.Send(CoordinatorHarness::PeerOf(worker), harness.MakeHeartbeat(worker));
    CHECK(harness.ViewOf(worker).phase == JobPhase::kGathering);
  }
  harness.Send(CoordinatorHarness::kStranger, Heartbeat{});  // from a reader: it may read the last version
  CHECK(harness.Take<View>(CoordinatorHarness::kStranger).back().phase == JobPhase::kDone);

  harness.RestartShard(1, {Part(Id(1, 2), 1)});
  CHECK(harness.coordinator->state() == State::kResetting);
  AnswerResets(&harness);
  CHECK(harness.coordinator->worker_count() == 2);
  for (const Join& worker : workers) {
    const View view = harness.ViewOf(worker);
    CHECK(view.phase == JobPhase::kRunning);
    CHECK(view.generation == Generation{2});
    CHECK(view.step == Step{2});
    CHECK(view.slots.size() == 1);
  }

  DoStep(&harness);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 3);
  REQUIRE(harness.coordinator->state() == State::kFinished);
  REQUIRE(harness.coordinator->SnapshotsSettled());
  for (const Join& worker : workers) CHECK(harness.ViewOf(worker).phase == JobPhase::kGathering);
  harness.Conclude();
  for (const Join& worker : workers) CHECK(harness.ViewOf(worker).phase == JobPhase::kDone);
}

TEST_CASE("a job that ends without its final weights is over for the workers too", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.config.job.steps = 2;
  harness.Run();
  for (int i = 0; i < 2; ++i) DoStep(&harness);
  REQUIRE(harness.coordinator->state() == State::kFinished);
  harness.coordinator->Shutdown();
  const Join w0 = harness.MakeJoin("w0");
  harness.Send(CoordinatorHarness::PeerOf(w0), harness.MakeHeartbeat(w0));
  CHECK(harness.ViewOf(w0).phase == JobPhase::kDone);
  CHECK(!harness.coordinator->concluded());
}

TEST_CASE("a coordinator started on the log of a job that is done has nothing left to do", "[server][stop]") {
  CoordinatorHarness harness = Harness();
  harness.config.job.steps = 2;
  harness.Run();
  for (int i = 0; i < 2; ++i) DoStep(&harness);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 2);
  REQUIRE(harness.coordinator->state() == State::kFinished);
  CHECK(!harness.coordinator->concluded());
  harness.Conclude();
  harness.Conclude();
  CHECK(harness.Logged<DoneRecord>().size() == 1);

  CoordinatorHarness again = Harness(3);  // also with another number of servers
  again.config.job.steps = 2;
  again.log = harness.log;
  for (CoordinatorHarness::FakeShard& shard : again.shards) {
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
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 2);
  SECTION("another momentum") {
    harness.config.optimizer.beta1 = 0.25;
    harness.Live();
    CHECK(harness.coordinator->state() == State::kFailed);
    CHECK(harness.coordinator->failure().code() == Code::kRefused);
    CHECK(Mentions(harness.coordinator->failure().message(), "[optimizer]"));
    CHECK(Mentions(harness.coordinator->failure().message(), "betas = [0.9, 0.999]"));
    CHECK(Mentions(harness.coordinator->failure().message(), "betas = [0.25, 0.999]"));
    CHECK(Mentions(harness.coordinator->failure().message(), "its state on disk was made with it"));
    harness.ShardsEchoTerm();
    harness.Joins("w0");
    harness.Tick(seconds(1));
    CHECK(harness.coordinator->state() == State::kFailed);
    CHECK(harness.Count<Reset>() == 0);
    harness.config.optimizer.beta1 = 0.9;  // the refusal has changed nothing
    harness.Live();
    CHECK(harness.coordinator->state() == State::kCollecting);
    CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  }
  SECTION("other members, limits and snapshots, and more steps") {
    harness.config.job.steps += 1;
    harness.config.cluster.workers = harness.config.cluster.min_workers = 1;
    harness.config.limits.lease = 99;
    harness.config.snapshot = {7, 7, 7};
    harness.Live();
    CHECK(harness.coordinator->state() == State::kCollecting);
  }
}

TEST_CASE("a directory of another job is refused", "[server][hello]") {
  CoordinatorHarness harness = Harness();
  harness.Live();
  harness.shards[0].hello.job = JobId{9, 9};
  harness.ShardsEchoTerm();
  const Error error = harness.TakeFromShard<Error>(0).at(0);
  CHECK(error.code == Code::kRefused);
  CHECK(error.incarnation == harness.shards[0].hello.incarnation);
  CHECK(Mentions(error.message, "another job"));
  CHECK(harness.coordinator->shards().empty());
  harness.shards[0].hello.job = JobId{1, 2};
  harness.SendHello(0);
  CHECK(harness.coordinator->shards().size() == 2);
}

TEST_CASE("a shard that is ahead of this coordinator is not obeyed, believed or refused, and people are told",
          "[server][hello]") {
  struct Newer {
    const char* word;
    void (*change)(Hello*);
  };
  const Newer all[] = {
      {"term 9", [](Hello* hello) { hello->term = Term{9}; }},
      {"generation 7", [](Hello* hello) { hello->generation = Generation{7}; }},
      {"generation 8", [](Hello* hello) { hello->newest_retained = Id(8, 3); }},
  };
  const bool accept_rollback = GENERATE(false, true);  // applies to a job that gathers, not to a running one
  for (const Newer& one : all) {
    CoordinatorHarness harness = Harness();
    harness.accept_rollback = accept_rollback;
    harness.Run();
    Hello hello = harness.shards[1].hello;
    hello.incarnation = Incarnation{60};
    one.change(&hello);
    for (int i = 0; i < 3; ++i) harness.Send(harness.shards[1].peer, hello);
    CHECK(harness.Count<Error>() == 3);  // each Hello is answered, and has no other effect
    CHECK(harness.Count<Reset>() == 0);
    CHECK(harness.coordinator->state() == State::kRunning);
    CHECK(harness.coordinator->generation() == Generation{1});
    CHECK(harness.coordinator->term() == Term{1});
    CHECK(harness.coordinator->shards().at(1).incarnation == Incarnation{51});
    CHECK(Mentions(harness.Notices(), "server 1"));
    CHECK(Mentions(harness.Notices(), one.word));
    CHECK(harness.Notices().find(one.word) == harness.Notices().rfind(one.word));  // it is logged only once
    CHECK(Mentions(harness.coordinator->WaitingFor(harness.now), one.word));
    CHECK(Mentions(harness.coordinator->WaitingFor(harness.now), "another coordinator has taken over"));
  }
}

TEST_CASE("an old log counts where the rollback is accepted: all shards go back to its newest snapshot",
          "[server][recovery]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  for (Hello* hello : {&harness.shards[0].hello, &harness.shards[1].hello}) {  // what they saw after the log was copied
    hello->term = Term{7};
    hello->generation = Generation{3};
    hello->newest_retained = Id(3, 9);
    hello->serving = false;  // all have been restarted
    hello->last_commit.reset();
  }
  harness.shards[0].hello.parts = {Part(Id(1, 4), 0), Part(Id(3, 9), 0)};
  harness.shards[1].hello.parts = {Part(Id(1, 4), 1), Part(Id(3, 9), 1)};
  harness.Live();
  for (ShardIndex shard : {0U, 1U}) harness.SendHello(shard);
  CHECK(Mentions(harness.Notices(), "go on from the snapshot of version 4 by --accept-rollback"));
  CHECK(harness.Count<Reset>() == 0);

  harness.accept_rollback = true;
  harness.Live();
  for (ShardIndex shard : {0U, 1U}) harness.SendHello(shard);
  CHECK(harness.coordinator->term() == Term{8});
  CHECK(harness.Count<Reset>() == 0);  // no shard has echoed that term yet
  harness.ShardsEchoTerm();
  const std::vector<Reset> resets = Resets(&harness);
  for (const Reset& reset : resets) {
    CHECK(reset.term == Term{8});
    CHECK(reset.generation == Generation{4});
    CHECK(reset.snapshot == Id(1, 4));
  }
  AnswerResets(&harness);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->step() == Step{4});
  CHECK(harness.Logged<TermRecord>().back().term == Term{8});
}

}  // namespace
}  // namespace capstan::server
