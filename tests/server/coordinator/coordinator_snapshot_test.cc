// When a snapshot exists, and how long it is retained.
#include "common/config/job/limits_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "tests/server/coordinator/coordinator_snapshot_steps.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a snapshot exists when every shard of this generation and life has its part, and not before",
          "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  CHECK(!DoStep(&harness).snapshot);
  CHECK(DoStep(&harness).snapshot);  // version 2
  CHECK(!DoStep(&harness).snapshot);
  harness.Keeps(0, 2);
  harness.Keeps(0, 2);  // repeated
  CHECK(harness.coordinator->manifests().empty());
  SnapshotDone other = harness.MakeDone(1, 2);
  other.incarnation = Incarnation{50};
  harness.Send(harness.shards[1].peer, other);
  other = harness.MakeDone(1, 2);
  other.generation = Generation{2};
  harness.Send(harness.shards[1].peer, other);
  harness.Send(CoordinatorHarness::kStranger, harness.MakeDone(1, 2));
  harness.Send(harness.shards[0].peer, harness.MakeDone(1, 2));
  harness.Keeps(1, 1);  // of an older version
  CHECK(harness.Logged<ManifestRecord>().empty());
  CHECK(harness.Count<RetainedSnapshots>() == 0);

  harness.Keeps(1, 2);
  REQUIRE(harness.Logged<ManifestRecord>().size() == 1);
  const ManifestRecord manifest = harness.Logged<ManifestRecord>()[0];
  CHECK(manifest.id == Id(1, 2));
  CHECK(manifest.digests == std::vector<std::uint64_t>{10200, 10201});
  CHECK(manifest.bytes == 2000);
  CHECK(manifest.parameters.updates == 2);
  CHECK(!manifest.parameters.snapshot);
  for (ShardIndex i : {0U, 1U}) {
    const RetainedSnapshots retained = harness.TakeFromShard<RetainedSnapshots>(i).at(0);
    CHECK(retained.ids == std::vector<SnapshotId>{Id(1, 2)});
    CHECK(retained.settled == Id(1, 2));
    CHECK(retained.generation == Generation{1});
  }
  CHECK(harness.metrics->snapshots_taken.value() == 1);
}

TEST_CASE("a shard that says again what is settled is told so, and makes no second snapshot", "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  harness.Forget();
  harness.Keeps(1, 4);
  CHECK(harness.TakeFromShard<RetainedSnapshots>(1).at(0).settled == Id(1, 4));
  harness.Keeps(0, 2);
  CHECK(harness.TakeFromShard<RetainedSnapshots>(0).size() == 1);
  CHECK(harness.Logged<ManifestRecord>().size() == 2);
}

TEST_CASE("shards whose part is missing are asked again; the others are not", "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  harness.Keeps(0, 2);
  harness.Forget();
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Pin>(0).empty());
  CHECK(harness.TakeFromShard<Pin>(1).at(0).version == Version{2});
  harness.Keeps(1, 2);
  harness.Pass(seconds(20), {harness.MakeJoin("w0")});
  CHECK(harness.TakeFromShard<Pin>(1).size() <= 1);  // none after the snapshot existed
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
}

TEST_CASE("while one snapshot is written no other begins, and training goes on", "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  DoStep(&harness);
  CHECK(DoStep(&harness).snapshot);
  harness.Keeps(0, 2);
  for (int i = 0; i < 4; ++i) CHECK(!DoStep(&harness).snapshot);  // versions 3 to 6
  CHECK(harness.metrics->snapshots_passed_over.value() == 2);
  harness.Keeps(1, 2);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  DoStep(&harness);
  CHECK(DoStep(&harness).snapshot);  // version 8
}

TEST_CASE("a part that cannot be written gives the snapshot up: it is said and counted, and the next one is taken",
          "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 2);
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  harness.Keeps(0, 4);
  harness.Forget();
  SnapshotDone failed = harness.MakeDone(1, 4);
  failed.failure = "the disk is full";
  harness.Send(harness.shards[1].peer, failed);
  CHECK(Mentions(harness.Notices(), "server 1: the disk is full"));
  CHECK(harness.metrics->snapshots_failed.value() == 1);
  const RetainedSnapshots sent = harness.TakeFromShard<RetainedSnapshots>(1).at(0);
  CHECK(sent.ids == std::vector<SnapshotId>{Id(1, 2)});
  CHECK(sent.settled == Id(1, 4));
  harness.Keeps(0, 4);  // the other part is no longer of use
  CHECK(harness.TakeFromShard<RetainedSnapshots>(0).at(0).settled == Id(1, 4));
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  RunTo(&harness, 6);
  CHECK(KeptVersions(*harness.coordinator) == std::vector<std::uint64_t>{2, 6});
}

TEST_CASE("a new coordinator completes the snapshot that the one before it asked for", "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  DoStep(&harness);
  REQUIRE(DoStep(&harness).snapshot);
  harness.Keeps(0, 2);
  DoStep(&harness);
  harness.Live();
  harness.ShardsEchoTerm();
  REQUIRE(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->generation() == Generation{1});
  harness.Keeps(1, 2);
  CHECK(harness.coordinator->manifests().empty());  // shard 0's earlier report is not in the log
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Pin>(0).at(0).version == Version{2});
  harness.Keeps(0, 2);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 2));
  CHECK(harness.coordinator->term() == Term{2});
  CHECK(harness.Logged<ManifestRecord>().at(0).digests == std::vector<std::uint64_t>{10200, 10201});
}

TEST_CASE("a coordinator that comes back shows the generation and the newest snapshot of its log",
          "[server][snapshot]") {
  CoordinatorHarness harness = Harness();
  harness.Run();
  RunTo(&harness, 4);
  for (monitoring::Gauge* gauge :
       {&harness.metrics->generation, &harness.metrics->snapshot_version, &harness.metrics->snapshot_bytes}) {
    gauge->Set(0);  // as in a new process
  }
  harness.Live();
  CHECK(harness.metrics->generation.value() == 1);
  CHECK(harness.metrics->snapshot_version.value() == 4);
  CHECK(harness.metrics->snapshot_bytes.value() == 2000);
}

TEST_CASE("as many snapshots stay as the job says, over the coordinator's death too", "[server][snapshot]") {
  for (const std::uint32_t keep : {2U, 3U}) {
    CoordinatorHarness harness = Harness(2, Mode::kSync, {2, 0, keep});
    harness.Run();
    RunTo(&harness, 10);
    const std::vector<std::uint64_t> wanted =
        keep == 2 ? std::vector<std::uint64_t>{8, 10} : std::vector<std::uint64_t>{6, 8, 10};
    CHECK(KeptVersions(*harness.coordinator) == wanted);
    const std::vector<RetainedSnapshots> retained = harness.TakeFromShard<RetainedSnapshots>(0);
    REQUIRE(!retained.empty());
    CHECK(retained.back().ids.size() == keep);
    CHECK(retained.back().ids.front() == Id(1, wanted.front()));
    harness.Live();
    CHECK(KeptVersions(*harness.coordinator) == wanted);
  }
}

TEST_CASE("every_seconds: the first step after that time is kept", "[server][snapshot]") {
  CoordinatorHarness harness = Harness(2, Mode::kSync, {0, 30, 2});
  harness.Run();
  const Join w0 = harness.MakeJoin("w0");
  CHECK(!DoStep(&harness).snapshot);
  harness.Pass(seconds(29), {w0});
  CHECK(!DoStep(&harness).snapshot);
  harness.Pass(seconds(2), {w0});
  CHECK(DoStep(&harness).snapshot);  // version 3
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 3);
  CHECK(!DoStep(&harness).snapshot);
  harness.Pass(seconds(31), {w0});
  CHECK(DoStep(&harness).snapshot);
  CHECK(harness.coordinator->newest_snapshot() == Id(1, 3));
}

TEST_CASE("every_seconds: losses do not put the next snapshot off", "[server][snapshot]") {
  CoordinatorHarness harness = Harness(2, Mode::kSync, {0, 30, 2});
  harness.Run();
  const Join w0 = harness.MakeJoin("w0");
  for (int loss = 0; loss < 3; ++loss) {  // one every 10 s
    CHECK(!DoStep(&harness).snapshot);
    harness.Pass(seconds(10), {w0});
    harness.RestartShard(1, {});
    AnswerResets(&harness);
  }
  CHECK(harness.coordinator->generation() == Generation{4});
  CHECK(DoStep(&harness).snapshot);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 1);
  CHECK(harness.coordinator->newest_snapshot() == Id(4, 1));
}

TEST_CASE("without a snapshot section's numbers nothing is ever kept", "[server][snapshot]") {
  CoordinatorHarness harness = Harness(2, Mode::kSync, {0, 0, 2});
  harness.Run();
  for (int i = 0; i < 10; ++i) {
    CHECK(!DoStep(&harness).snapshot);
    harness.Tick(seconds(9));
  }
  CHECK(harness.Count<Pin>() == 0);
  CHECK(harness.coordinator->SnapshotsSettled());
}

TEST_CASE("async: shards are asked when the slowest slot's clock, or the time, says so", "[server][snapshot][async]") {
  CoordinatorHarness harness = Harness(2, Mode::kAsync, {3, 0, 2});
  harness.Run();
  for (std::uint64_t clock : {1U, 2U}) Clocks(&harness, clock);
  harness.Tick(milliseconds(100));
  CHECK(harness.Count<Pin>() == 0);
  Clocks(&harness, 3);
  harness.Tick(milliseconds(100));
  for (ShardIndex i : {0U, 1U}) CHECK(harness.TakeFromShard<Pin>(i).at(0).version == Version{3});
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 3);
  REQUIRE(harness.coordinator->newest_snapshot() == Id(1, 3));
  CHECK(harness.Logged<ManifestRecord>().at(0).parameters.updates == 3);
  CHECK(harness.Logged<ManifestRecord>().at(0).parameters.learning_rate == 0.5F);  // the coordinator computes it
  harness.Tick(seconds(1));
  CHECK(harness.Count<Pin>() == 0);

  CoordinatorHarness timed = Harness(2, Mode::kAsync, {0, 30, 2});
  timed.Run();
  Clocks(&timed, 1);
  timed.Pass(seconds(29), {timed.MakeJoin("w0")});
  CHECK(timed.Count<Pin>() == 0);
  timed.Pass(seconds(2), {timed.MakeJoin("w0")});
  CHECK(timed.TakeFromShard<Pin>(0).at(0).version == Version{1});
}

// Does both steps of a job of two steps, so that only the last snapshot is missing.
void DoAllSteps(CoordinatorHarness* harness) {
  harness->config.job.steps = 2;
  harness->config.limits.stall = 60;
  harness->config.limits.lease = 1000;
  harness->Run();
  for (int i = 0; i < 2; ++i) DoStep(harness);
}

TEST_CASE("after the last step the shards that have no part of the last snapshot are named, and limits.stall holds",
          "[server][snapshot][deadline]") {
  CoordinatorHarness harness = Harness();
  DoAllSteps(&harness);
  REQUIRE(harness.coordinator->state() == State::kFinished);
  harness.coordinator->RequestStop(harness.now);  // the stop waits for the same snapshot
  harness.Pass(seconds(40));
  CHECK(Mentions(harness.Notices(), "server 0 (writing the last snapshot), server 1 (writing the last snapshot)"));
  CHECK(!Mentions(harness.Notices(), "not joined"));
  harness.Keeps(0, 2);
  harness.Forget();
  harness.Pass(seconds(50));
  harness.Keeps(0, 2);  // repeated: no progress
  harness.Pass(seconds(9));
  CHECK(harness.coordinator->state() == State::kFinished);
  CHECK(Mentions(harness.Notices(), "server 1 (writing the last snapshot)"));
  CHECK(!Mentions(harness.Notices(), "server 0 (writing the last snapshot)"));
  CHECK(harness.metrics->waiting_seconds.value() >= 58);
  harness.Pass(seconds(2));
  REQUIRE(harness.coordinator->state() == State::kFailed);
  CHECK(Mentions(harness.coordinator->failure().message(),
                 "the last snapshot was not complete after 60 s; waited for: "));
}

TEST_CASE("a job with its last snapshot waits for nobody", "[server][snapshot][deadline]") {
  CoordinatorHarness harness = Harness();
  DoAllSteps(&harness);
  for (ShardIndex i : {0U, 1U}) harness.Keeps(i, 2);
  REQUIRE(harness.coordinator->SnapshotsSettled());
  harness.Forget();
  harness.Pass(seconds(100));
  CHECK(harness.Notices().empty());
  CHECK(harness.coordinator->state() == State::kFinished);
  CHECK(harness.metrics->waiting_seconds.value() == 0);
}

}  // namespace
}  // namespace capstan::server
