// A job whose first weights come from a worker. There is one founder at a time, and version 0 is on disk before the
// first step.
#include "common/config/job/job_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

class GivenBench : public CoordinatorBench {
 public:
  using CoordinatorBench::CoordinatorBench;

  Join JoinsGiven(const std::string& name, std::uint64_t nonce = 1, std::uint32_t rank = 0) {
    Join join = MakeJoin(name, nonce);
    join.rank = rank;
    join.ranks = rank == 0 ? 0 : config.job.slots;
    join.catalog[1].init.kind = InitKind::kGiven;
    Send(PeerOf(join), join);
    return join;
  }
  void AnswerResets() {
    for (ShardIndex i = 0; i < shards.size(); ++i) AnswerReset(i);
  }
  // Starts a job that runs and waits for first weights.
  void RunGiven() {
    Live();
    ShardsEchoTerm();
    first = JoinsGiven("w0");
    second = JoinsGiven("w1");
    AnswerResets();
  }
  void KeepAll(std::uint64_t version) {
    for (ShardIndex i = 0; i < shards.size(); ++i) Keeps(i, version);
  }
  std::string Founders() {
    std::string names;
    for (const Join& join : {first, second}) {
      if (ViewOf(join).founder) names += join.worker;
    }
    return names;
  }

  Join first, second;
};

}  // namespace

TEST_CASE("the worker whose name comes first is the founder, whoever joined first", "[server][given]") {
  for (const bool in_order : {true, false}) {
    GivenBench bench;
    bench.Live();
    bench.ShardsEchoTerm();
    bench.first = bench.JoinsGiven(in_order ? "worker-2" : "worker-10");
    bench.second = bench.JoinsGiven(in_order ? "worker-10" : "worker-2");
    bench.AnswerResets();
    CHECK(bench.Founders() == "worker-2");
  }
}

TEST_CASE("where workers have ranks, the first of them is the founder, and nobody before it is there",
          "[server][given]") {
  GivenBench bench(2, 1);
  bench.Live();
  bench.ShardsEchoTerm();
  bench.first = bench.MakeJoin("b");  // joins later
  bench.second = bench.JoinsGiven("a", 1, 2);
  bench.AnswerResets();
  CHECK(bench.coordinator->state() == Coordinator::State::kRunning);
  CHECK(bench.Founders().empty());
  CHECK_THAT(bench.coordinator->WaitingFor(bench.now), Contains("rank 0, which gives the first weights"));
  bench.first = bench.JoinsGiven("b", 1, 1);
  CHECK(bench.Founders() == "b");
  CHECK(bench.coordinator->generation() == Generation{1});
}

TEST_CASE("one worker is the founder, and no other", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  CHECK(bench.Founders() == "w0");
  CHECK_THAT(bench.coordinator->WaitingFor(bench.now), Contains("first weights from \"w0\" (not kept yet by server 0"));
  bench.Keeps(0, 0);
  CHECK_THAT(bench.coordinator->WaitingFor(bench.now), Contains("(not kept yet by server 1)"));
}

TEST_CASE("version 0 of given weights is kept at once, whatever the job says of snapshots", "[server][given]") {
  GivenBench bench;
  bench.config.snapshot.every_steps = 0;
  bench.config.snapshot.every_seconds = 0;
  bench.RunGiven();
  bench.Tick(1s);
  for (ShardIndex shard : {0, 1}) {
    const std::vector<Pin> pins = bench.TakeFromShard<Pin>(shard);
    REQUIRE_FALSE(pins.empty());
    CHECK(pins[0].version == Version{0});
  }
  bench.KeepAll(0);
  REQUIRE(bench.Logged<ManifestRecord>().size() == 1);
  CHECK(bench.Logged<ManifestRecord>()[0].id == SnapshotId{Generation{1}, Version{0}});
  CHECK_FALSE(bench.coordinator->AwaitsFirstWeights());
  const std::vector<SnapshotsKept> kept = bench.TakeFromShard<SnapshotsKept>(0);
  REQUIRE_FALSE(kept.empty());
  CHECK(kept.back().kept == std::vector<SnapshotId>{{Generation{1}, Version{0}}});
  bench.Send(bench.PeerOf(bench.first), bench.MakeBeat(bench.first));
  CHECK(bench.Founders().empty());
  bench.DoStep(0);
  CHECK(bench.coordinator->step() == Step{1});
}

TEST_CASE("a founder that is lost before version 0 is kept takes its generation along", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  CHECK(bench.Founders() == "w0");
  SECTION("it leaves") { bench.Send(bench.PeerOf(bench.first), bench.MakeLeave(bench.first)); }
  SECTION("it dies") { bench.coordinator->WorkerDied("w0", bench.now, std::make_unique<Outbox>().get()); }
  SECTION("it is silent") { bench.Pass(12s, {bench.second}); }
  bench.Tick();
  CHECK(bench.coordinator->state() == Coordinator::State::kResetting);
  CHECK(bench.coordinator->generation() == Generation{2});
  CHECK(bench.Logged<RecoverRecord>().back().snapshot.IsNone());
  bench.AnswerResets();
  CHECK(bench.Founders() == "w1");
}

TEST_CASE("a founder's name in another process begins anew, with that process's weights", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.first = bench.JoinsGiven("w0", 2);
  bench.Tick();
  CHECK(bench.coordinator->generation() == Generation{2});
  bench.AnswerResets();
  CHECK(bench.Founders() == "w0");
}

TEST_CASE("a founder that is lost once version 0 is kept takes nothing along", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.KeepAll(0);
  bench.Send(bench.PeerOf(bench.first), bench.MakeLeave(bench.first));
  bench.Tick();
  CHECK(bench.coordinator->state() == Coordinator::State::kRunning);
  CHECK(bench.coordinator->generation() == Generation{1});
}

TEST_CASE("another worker than the founder may be lost before version 0 is kept", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.Send(bench.PeerOf(bench.second), bench.MakeLeave(bench.second));
  bench.Tick();
  CHECK(bench.coordinator->generation() == Generation{1});
  bench.Send(bench.PeerOf(bench.first), bench.MakeBeat(bench.first));
  CHECK(bench.Founders() == "w0");
}

TEST_CASE("when all are gone, whoever joins next is the founder", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  for (const Join& join : {bench.first, bench.second}) bench.Send(bench.PeerOf(join), bench.MakeLeave(join));
  bench.Tick();
  bench.AnswerResets();
  CHECK(bench.coordinator->state() == Coordinator::State::kRunning);
  CHECK_THAT(bench.coordinator->WaitingFor(bench.now), Contains("a worker that gives the first weights"));
  bench.first = bench.JoinsGiven("w2");
  CHECK(bench.Founders() == "w2");
  CHECK(bench.coordinator->generation() == Generation{2});
}

TEST_CASE("a coordinator that comes back before version 0 is kept begins anew", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->state() == Coordinator::State::kResetting);
  CHECK(bench.coordinator->generation() == Generation{2});
  bench.Live();  // between RECOVER and RUNNING: no shard knows of a founder
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->generation() == Generation{2});
}

TEST_CASE("a coordinator that comes back once version 0 is kept goes on", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.KeepAll(0);
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->state() == Coordinator::State::kRunning);
  CHECK(bench.coordinator->generation() == Generation{1});
  bench.first = bench.JoinsGiven("w0");
  CHECK(bench.Founders().empty());
}

TEST_CASE("a shard that is lost before version 0 is kept costs a generation, durable or not", "[server][given]") {
  for (Acknowledge acknowledge : {Acknowledge::kReceived, Acknowledge::kDurable}) {
    GivenBench bench(2, 2, Mode::kAsync);
    bench.config.job.acknowledge = acknowledge;
    bench.RunGiven();
    bench.Keeps(0, 0);
    bench.RestartShard(1, {});
    CHECK(bench.coordinator->state() == Coordinator::State::kResetting);
    CHECK(bench.coordinator->history() == Generation{2});
    bench.AnswerResets();
    CHECK(bench.Founders() == "w0");
    bench.KeepAll(0);
    CHECK_FALSE(bench.coordinator->AwaitsFirstWeights());
    CHECK(bench.coordinator->state() == Coordinator::State::kRunning);
  }
}

TEST_CASE("first weights that cannot be kept end the job, and the text says where and why", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  SnapshotDone done = bench.MakeDone(1, 0);
  done.failure = "/runs/a/snapshots: no space left on device";
  bench.Send(bench.shards[1].peer, done);
  CHECK(bench.coordinator->state() == Coordinator::State::kFailed);
  CHECK_THAT(bench.coordinator->failure().message(),
             Contains("first weights cannot be kept") && Contains("server 1: /runs/a/snapshots: no space left"));
}

TEST_CASE("a stop before version 0 is kept waits for nothing", "[server][given]") {
  GivenBench bench;
  bench.RunGiven();
  bench.coordinator->RequestStop(bench.now);
  bench.Tick();
  CHECK(bench.coordinator->state() == Coordinator::State::kStopped);
}

TEST_CASE("a job whose weights follow from the seed has no founder", "[server][given]") {
  CoordinatorBench bench;
  bench.Live();
  bench.ShardsEchoTerm();
  const Join first = bench.Joins("w0");
  bench.Joins("w1");
  for (ShardIndex i = 0; i < bench.shards.size(); ++i) bench.AnswerReset(i);
  bench.Tick(1s);
  CHECK_FALSE(bench.ViewOf(first).founder);
  CHECK(bench.TakeFromShard<Pin>(0).empty());
}
