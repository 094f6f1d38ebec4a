// A job whose first weights come from a worker, its founder. There is one founder at a time, and version 0 is on disk
// before the first step.
#include "common/config/job/job_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

class FirstWeightsHarness : public CoordinatorHarness {
 public:
  using CoordinatorHarness::CoordinatorHarness;

  Join JoinsGiven(const std::string& name, std::uint64_t nonce = 1, std::uint32_t rank = 0) {
    Join join = MakeJoin(name, nonce);
    join.rank = rank;
    join.ranks = rank == 0 ? 0 : config.job.slots;
    join.catalog[1].init.kind = InitKind::kFromWorker;
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
    FirstWeightsHarness harness;
    harness.Live();
    harness.ShardsEchoTerm();
    harness.first = harness.JoinsGiven(in_order ? "worker-2" : "worker-10");
    harness.second = harness.JoinsGiven(in_order ? "worker-10" : "worker-2");
    harness.AnswerResets();
    CHECK(harness.Founders() == "worker-2");
  }
}

TEST_CASE("where workers have ranks, the first of them is the founder, and nobody before it is there",
          "[server][given]") {
  FirstWeightsHarness harness(2, 1);
  harness.Live();
  harness.ShardsEchoTerm();
  harness.first = harness.MakeJoin("b");  // joins later
  harness.second = harness.JoinsGiven("a", 1, 2);
  harness.AnswerResets();
  CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
  CHECK(harness.Founders().empty());
  CHECK_THAT(harness.coordinator->WaitingFor(harness.now), Contains("rank 0, which gives the first weights"));
  harness.first = harness.JoinsGiven("b", 1, 1);
  CHECK(harness.Founders() == "b");
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("one worker is the founder, and no other", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  CHECK(harness.Founders() == "w0");
  CHECK_THAT(harness.coordinator->WaitingFor(harness.now),
             Contains("first weights from \"w0\" (not kept yet by server 0"));
  harness.Keeps(0, 0);
  CHECK_THAT(harness.coordinator->WaitingFor(harness.now), Contains("(not kept yet by server 1)"));
}

TEST_CASE("version 0 of given weights is kept at once, whatever the job says of snapshots", "[server][given]") {
  FirstWeightsHarness harness;
  harness.config.snapshot.every_steps = 0;
  harness.config.snapshot.every_seconds = 0;
  harness.RunGiven();
  harness.Tick(1s);
  for (ShardIndex shard : {0, 1}) {
    const std::vector<Pin> pins = harness.TakeFromShard<Pin>(shard);
    REQUIRE_FALSE(pins.empty());
    CHECK(pins[0].version == Version{0});
  }
  harness.KeepAll(0);
  REQUIRE(harness.Logged<ManifestRecord>().size() == 1);
  CHECK(harness.Logged<ManifestRecord>()[0].id == SnapshotId{Generation{1}, Version{0}});
  CHECK_FALSE(harness.coordinator->AwaitsInitialWeights());
  const std::vector<RetainedSnapshots> kept = harness.TakeFromShard<RetainedSnapshots>(0);
  REQUIRE_FALSE(kept.empty());
  CHECK(kept.back().ids == std::vector<SnapshotId>{{Generation{1}, Version{0}}});
  harness.Send(harness.PeerOf(harness.first), harness.MakeHeartbeat(harness.first));
  CHECK(harness.Founders().empty());
  harness.DoStep(0);
  CHECK(harness.coordinator->step() == Step{1});
}

TEST_CASE("a founder that is lost before version 0 is kept takes its generation along", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  CHECK(harness.Founders() == "w0");
  SECTION("it leaves") { harness.Send(harness.PeerOf(harness.first), harness.MakeLeave(harness.first)); }
  SECTION("it is silent") { harness.Pass(12s, {harness.second}); }
  harness.Tick();
  CHECK(harness.coordinator->state() == Coordinator::State::kResetting);
  CHECK(harness.coordinator->generation() == Generation{2});
  CHECK(harness.Logged<RecoverRecord>().back().snapshot.IsNone());
  harness.AnswerResets();
  CHECK(harness.Founders() == "w1");
}

TEST_CASE("a founder's name in another process begins from nothing, with that process's weights", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  const PeerId before = harness.PeerOf(harness.first);
  harness.first = harness.JoinsGiven("w0", 2);
  harness.Gone(before);
  harness.Tick();
  CHECK(harness.coordinator->generation() == Generation{2});
  harness.AnswerResets();
  CHECK(harness.Founders() == "w0");
}

TEST_CASE("a founder that is lost once version 0 is kept takes nothing along", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  harness.KeepAll(0);
  harness.Send(harness.PeerOf(harness.first), harness.MakeLeave(harness.first));
  harness.Tick();
  CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("another worker than the founder may be lost before version 0 is kept", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  harness.Send(harness.PeerOf(harness.second), harness.MakeLeave(harness.second));
  harness.Tick();
  CHECK(harness.coordinator->generation() == Generation{1});
  harness.Send(harness.PeerOf(harness.first), harness.MakeHeartbeat(harness.first));
  CHECK(harness.Founders() == "w0");
}

TEST_CASE("when all are gone, whoever joins next is the founder", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  for (const Join& join : {harness.first, harness.second}) harness.Send(harness.PeerOf(join), harness.MakeLeave(join));
  harness.Tick();
  harness.AnswerResets();
  CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
  CHECK_THAT(harness.coordinator->WaitingFor(harness.now), Contains("a worker that gives the first weights"));
  harness.first = harness.JoinsGiven("w2");
  CHECK(harness.Founders() == "w2");
  CHECK(harness.coordinator->generation() == Generation{2});
}

TEST_CASE("a coordinator that comes back before version 0 is kept begins from nothing", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == Coordinator::State::kResetting);
  CHECK(harness.coordinator->generation() == Generation{2});
  harness.Live();  // between RECOVER and RUNNING: no shard knows of a founder
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->generation() == Generation{2});
}

TEST_CASE("a coordinator that comes back once version 0 is kept goes on", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  harness.KeepAll(0);
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
  CHECK(harness.coordinator->generation() == Generation{1});
  harness.first = harness.JoinsGiven("w0");
  CHECK(harness.Founders().empty());
}

TEST_CASE("a shard that is lost before version 0 is kept costs a generation, durable or not", "[server][given]") {
  for (Acknowledge acknowledge : {Acknowledge::kReceived, Acknowledge::kDurable}) {
    FirstWeightsHarness harness(2, 2, Mode::kAsync);
    harness.config.job.acknowledge = acknowledge;
    harness.RunGiven();
    harness.Keeps(0, 0);
    harness.RestartShard(1, {});
    CHECK(harness.coordinator->state() == Coordinator::State::kResetting);
    CHECK(harness.coordinator->timeline() == TimelineId{2});
    harness.AnswerResets();
    CHECK(harness.Founders() == "w0");
    harness.KeepAll(0);
    CHECK_FALSE(harness.coordinator->AwaitsInitialWeights());
    CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
  }
}

TEST_CASE("first weights that cannot be kept end the job, and the text says where and why", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  SnapshotDone done = harness.MakeDone(1, 0);
  done.failure = "/runs/a/snapshots: no space left on device";
  harness.Send(harness.shards[1].peer, done);
  CHECK(harness.coordinator->state() == Coordinator::State::kFailed);
  CHECK_THAT(harness.coordinator->failure().message(),
             Contains("first weights cannot be kept") && Contains("server 1: /runs/a/snapshots: no space left"));
}

TEST_CASE("a stop before version 0 is kept waits for nothing", "[server][given]") {
  FirstWeightsHarness harness;
  harness.RunGiven();
  harness.coordinator->RequestStop(harness.now);
  harness.Tick();
  CHECK(harness.coordinator->state() == Coordinator::State::kStopped);
}

TEST_CASE("a job whose weights follow from the seed has no founder", "[server][given]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join first = harness.Joins("w0");
  harness.Joins("w1");
  for (ShardIndex i = 0; i < harness.shards.size(); ++i) harness.AnswerReset(i);
  harness.Tick(1s);
  CHECK_FALSE(harness.ViewOf(first).founder);
  CHECK(harness.TakeFromShard<Pin>(0).empty());
}
