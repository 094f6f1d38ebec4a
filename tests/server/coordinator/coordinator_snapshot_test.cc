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
  CoordinatorBench bench = Bench();
  bench.Run();
  CHECK(!DoStep(&bench).snapshot);
  CHECK(DoStep(&bench).snapshot);  // version 2
  CHECK(!DoStep(&bench).snapshot);
  bench.Keeps(0, 2);
  bench.Keeps(0, 2);  // repeated
  CHECK(bench.coordinator->manifests().empty());
  SnapshotDone other = bench.MakeDone(1, 2);
  other.incarnation = Incarnation{50};
  bench.Send(bench.shards[1].peer, other);
  other = bench.MakeDone(1, 2);
  other.generation = Generation{2};
  bench.Send(bench.shards[1].peer, other);
  bench.Send(CoordinatorBench::kStranger, bench.MakeDone(1, 2));
  bench.Send(bench.shards[0].peer, bench.MakeDone(1, 2));
  bench.Keeps(1, 1);  // of an older version
  CHECK(bench.Logged<ManifestRecord>().empty());
  CHECK(bench.Count<SnapshotsKept>() == 0);

  bench.Keeps(1, 2);
  REQUIRE(bench.Logged<ManifestRecord>().size() == 1);
  const ManifestRecord manifest = bench.Logged<ManifestRecord>()[0];
  CHECK(manifest.id == Id(1, 2));
  CHECK(manifest.digests == std::vector<std::uint64_t>{10200, 10201});
  CHECK(manifest.bytes == 2000);
  CHECK(manifest.parameters.updates == 2);
  CHECK(!manifest.parameters.snapshot);
  for (ShardIndex i : {0U, 1U}) {
    const SnapshotsKept kept = bench.TakeFromShard<SnapshotsKept>(i).at(0);
    CHECK(kept.kept == std::vector<SnapshotId>{Id(1, 2)});
    CHECK(kept.settled == Id(1, 2));
    CHECK(kept.generation == Generation{1});
  }
  CHECK(bench.metrics->snapshots_taken.value() == 1);
}

TEST_CASE("a shard that says again what is settled is told so, and makes no second snapshot", "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  bench.Forget();
  bench.Keeps(1, 4);
  CHECK(bench.TakeFromShard<SnapshotsKept>(1).at(0).settled == Id(1, 4));
  bench.Keeps(0, 2);
  CHECK(bench.TakeFromShard<SnapshotsKept>(0).size() == 1);
  CHECK(bench.Logged<ManifestRecord>().size() == 2);
}

TEST_CASE("shards whose part is missing are asked again; the others are not", "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  bench.Keeps(0, 2);
  bench.Forget();
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Pin>(0).empty());
  CHECK(bench.TakeFromShard<Pin>(1).at(0).version == Version{2});
  bench.Keeps(1, 2);
  bench.Pass(seconds(20), {bench.MakeJoin("w0")});
  CHECK(bench.TakeFromShard<Pin>(1).size() <= 1);  // none after it existed
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
}

TEST_CASE("while one snapshot is written no other begins, and training goes on", "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  DoStep(&bench);
  CHECK(DoStep(&bench).snapshot);
  bench.Keeps(0, 2);
  for (int i = 0; i < 4; ++i) CHECK(!DoStep(&bench).snapshot);  // versions 3 to 6
  CHECK(bench.metrics->snapshots_passed_over.value() == 2);
  bench.Keeps(1, 2);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  DoStep(&bench);
  CHECK(DoStep(&bench).snapshot);  // version 8
}

TEST_CASE("a part that cannot be written gives the snapshot up: it is said and counted, and the next one is taken",
          "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 2);
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  bench.Keeps(0, 4);
  bench.Forget();
  SnapshotDone failed = bench.MakeDone(1, 4);
  failed.failure = "the disk is full";
  bench.Send(bench.shards[1].peer, failed);
  CHECK(Mentions(bench.Notices(), "server 1: the disk is full"));
  CHECK(bench.metrics->snapshots_failed.value() == 1);
  const SnapshotsKept told = bench.TakeFromShard<SnapshotsKept>(1).at(0);
  CHECK(told.kept == std::vector<SnapshotId>{Id(1, 2)});
  CHECK(told.settled == Id(1, 4));
  bench.Keeps(0, 4);  // the other part is no longer of use
  CHECK(bench.TakeFromShard<SnapshotsKept>(0).at(0).settled == Id(1, 4));
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  RunTo(&bench, 6);
  CHECK(KeptVersions(*bench.coordinator) == std::vector<std::uint64_t>{2, 6});
}

TEST_CASE("a new coordinator completes the snapshot that the one before it asked for", "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  DoStep(&bench);
  REQUIRE(DoStep(&bench).snapshot);
  bench.Keeps(0, 2);
  DoStep(&bench);
  bench.Live();
  bench.ShardsEchoTerm();
  REQUIRE(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->generation() == Generation{1});
  bench.Keeps(1, 2);
  CHECK(bench.coordinator->manifests().empty());  // the message to the previous coordinator is not in the log
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Pin>(0).at(0).version == Version{2});
  bench.Keeps(0, 2);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 2));
  CHECK(bench.coordinator->term() == Term{2});
  CHECK(bench.Logged<ManifestRecord>().at(0).digests == std::vector<std::uint64_t>{10200, 10201});
}

TEST_CASE("a coordinator that comes back shows the generation and the newest snapshot of its log",
          "[server][snapshot]") {
  CoordinatorBench bench = Bench();
  bench.Run();
  RunTo(&bench, 4);
  for (monitoring::Gauge* gauge :
       {&bench.metrics->generation, &bench.metrics->snapshot_version, &bench.metrics->snapshot_bytes}) {
    gauge->Set(0);  // another process begins
  }
  bench.Live();
  CHECK(bench.metrics->generation.value() == 1);
  CHECK(bench.metrics->snapshot_version.value() == 4);
  CHECK(bench.metrics->snapshot_bytes.value() == 2000);
}

TEST_CASE("as many snapshots stay as the job says, over the coordinator's death too", "[server][snapshot]") {
  for (const std::uint32_t keep : {2U, 3U}) {
    CoordinatorBench bench = Bench(2, Mode::kSync, {2, 0, keep});
    bench.Run();
    RunTo(&bench, 10);
    const std::vector<std::uint64_t> wanted =
        keep == 2 ? std::vector<std::uint64_t>{8, 10} : std::vector<std::uint64_t>{6, 8, 10};
    CHECK(KeptVersions(*bench.coordinator) == wanted);
    const std::vector<SnapshotsKept> kept = bench.TakeFromShard<SnapshotsKept>(0);
    REQUIRE(!kept.empty());
    CHECK(kept.back().kept.size() == keep);
    CHECK(kept.back().kept.front() == Id(1, wanted.front()));
    bench.Live();
    CHECK(KeptVersions(*bench.coordinator) == wanted);
  }
}

TEST_CASE("every_seconds: the first step after that time is kept", "[server][snapshot]") {
  CoordinatorBench bench = Bench(2, Mode::kSync, {0, 30, 2});
  bench.Run();
  const Join w0 = bench.MakeJoin("w0");
  CHECK(!DoStep(&bench).snapshot);
  bench.Pass(seconds(29), {w0});
  CHECK(!DoStep(&bench).snapshot);
  bench.Pass(seconds(2), {w0});
  CHECK(DoStep(&bench).snapshot);  // version 3
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 3);
  CHECK(!DoStep(&bench).snapshot);
  bench.Pass(seconds(31), {w0});
  CHECK(DoStep(&bench).snapshot);
  CHECK(bench.coordinator->newest_snapshot() == Id(1, 3));
}

TEST_CASE("every_seconds: losses do not put the next snapshot off", "[server][snapshot]") {
  CoordinatorBench bench = Bench(2, Mode::kSync, {0, 30, 2});
  bench.Run();
  const Join w0 = bench.MakeJoin("w0");
  for (int loss = 0; loss < 3; ++loss) {  // one every 10 s
    CHECK(!DoStep(&bench).snapshot);
    bench.Pass(seconds(10), {w0});
    bench.RestartShard(1, {});
    AnswerResets(&bench);
  }
  CHECK(bench.coordinator->generation() == Generation{4});
  CHECK(DoStep(&bench).snapshot);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 1);
  CHECK(bench.coordinator->newest_snapshot() == Id(4, 1));
}

TEST_CASE("without a snapshot section's numbers nothing is ever kept", "[server][snapshot]") {
  CoordinatorBench bench = Bench(2, Mode::kSync, {0, 0, 2});
  bench.Run();
  for (int i = 0; i < 10; ++i) {
    CHECK(!DoStep(&bench).snapshot);
    bench.Tick(seconds(9));
  }
  CHECK(bench.Count<Pin>() == 0);
  CHECK(bench.coordinator->SnapshotsSettled());
}

TEST_CASE("async: shards are asked when the slowest slot's clock, or the time, says so", "[server][snapshot][async]") {
  CoordinatorBench bench = Bench(2, Mode::kAsync, {3, 0, 2});
  bench.Run();
  for (std::uint64_t clock : {1U, 2U}) Clocks(&bench, clock);
  bench.Tick(milliseconds(100));
  CHECK(bench.Count<Pin>() == 0);
  Clocks(&bench, 3);
  bench.Tick(milliseconds(100));
  for (ShardIndex i : {0U, 1U}) CHECK(bench.TakeFromShard<Pin>(i).at(0).version == Version{3});
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 3);
  REQUIRE(bench.coordinator->newest_snapshot() == Id(1, 3));
  CHECK(bench.Logged<ManifestRecord>().at(0).parameters.updates == 3);
  CHECK(bench.Logged<ManifestRecord>().at(0).parameters.learning_rate == 0.5F);  // the coordinator computes it
  bench.Tick(seconds(1));
  CHECK(bench.Count<Pin>() == 0);

  CoordinatorBench timed = Bench(2, Mode::kAsync, {0, 30, 2});
  timed.Run();
  Clocks(&timed, 1);
  timed.Pass(seconds(29), {timed.MakeJoin("w0")});
  CHECK(timed.Count<Pin>() == 0);
  timed.Pass(seconds(2), {timed.MakeJoin("w0")});
  CHECK(timed.TakeFromShard<Pin>(0).at(0).version == Version{1});
}

// Does both steps of a job of two steps, so that only the last snapshot is missing.
void DoAllSteps(CoordinatorBench* bench) {
  bench->config.job.steps = 2;
  bench->config.limits.stall = 60;
  bench->config.limits.lease = 1000;
  bench->Run();
  for (int i = 0; i < 2; ++i) DoStep(bench);
}

TEST_CASE("after the last step the shards that have no part of the last snapshot are named, and limits.stall holds",
          "[server][snapshot][deadline]") {
  CoordinatorBench bench = Bench();
  DoAllSteps(&bench);
  REQUIRE(bench.coordinator->state() == State::kFinished);
  bench.coordinator->RequestStop(bench.now);  // it waits for the same snapshot
  bench.Pass(seconds(40));
  CHECK(Mentions(bench.Notices(), "server 0 (writing the last snapshot), server 1 (writing the last snapshot)"));
  CHECK(!Mentions(bench.Notices(), "not joined"));
  bench.Keeps(0, 2);
  bench.Forget();
  bench.Pass(seconds(50));
  bench.Keeps(0, 2);  // repeated: no progress
  bench.Pass(seconds(9));
  CHECK(bench.coordinator->state() == State::kFinished);
  CHECK(Mentions(bench.Notices(), "server 1 (writing the last snapshot)"));
  CHECK(!Mentions(bench.Notices(), "server 0 (writing the last snapshot)"));
  CHECK(bench.metrics->waiting_seconds.value() >= 58);
  bench.Pass(seconds(2));
  REQUIRE(bench.coordinator->state() == State::kFailed);
  CHECK(
      Mentions(bench.coordinator->failure().message(), "the last snapshot was not complete after 60 s; waited for: "));
}

TEST_CASE("a job with its last snapshot waits for nobody", "[server][snapshot][deadline]") {
  CoordinatorBench bench = Bench();
  DoAllSteps(&bench);
  for (ShardIndex i : {0U, 1U}) bench.Keeps(i, 2);
  REQUIRE(bench.coordinator->SnapshotsSettled());
  bench.Forget();
  bench.Pass(seconds(100));
  CHECK(bench.Notices().empty());
  CHECK(bench.coordinator->state() == State::kFinished);
  CHECK(bench.metrics->waiting_seconds.value() == 0);
}

}  // namespace
}  // namespace capstan::server
