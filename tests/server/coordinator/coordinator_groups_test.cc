// The coordinator in mode allreduce: how groups of workers form, and from which step the job goes on when one changes.
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

bool Mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

class GroupHarness : public CoordinatorHarness {
 public:
  explicit GroupHarness(std::uint32_t workers = 2) : CoordinatorHarness(1, workers, Mode::kAllReduce) {
    config.job.steps = 20;
    config.snapshot.every_steps = 0;
    config.snapshot.every_seconds = 0;
  }
  void RunWith(const std::vector<std::string>& names) {
    Live();
    ShardsEchoTerm();
    for (const std::string& name : names) joins.push_back(Joins(name));
    AnswerReset(0);
    Pass(seconds(2), joins);
    Forget();
  }
  void ReportGroup(const Join& join, GroupState state, const std::string& text) {
    Heartbeat beat = MakeHeartbeat(join);
    beat.generation = coordinator->generation();
    beat.group = state;
    beat.group_text = text;
    Send(PeerOf(join), beat);
  }
  // Sends the shard's Prepared of a step, for which the workers of slots 0 and 1 report these sums of gradient squares.
  void PreparesWith(std::uint64_t step, double first, double second) {
    Prepared prepared = MakePrepared(0, step, 0.0);
    prepared.report.block_samples.clear();
    prepared.report.slots.at(0).gradient_squares = first;
    prepared.report.slots.at(1).gradient_squares = second;
    shards[0].hello.prepared = prepared;
    Send(shards[0].peer, prepared);
  }
  // Does a step with the group; returns its Commit.
  Commit DoGroupStep(std::uint64_t step) {
    PreparesWith(step, 4.0, 4.0);
    const std::vector<Commit> commits = TakeFromShard<Commit>(0);
    REQUIRE(commits.size() == 1);
    Commits(0, commits[0]);
    return commits[0];
  }
  // Answers a Reset as a shard that keeps its state.
  void GoOn() {
    shards[0].hello.generation = coordinator->generation();
    shards[0].hello.prepared.reset();
    Send(shards[0].peer, ResetDone{0, shards[0].hello.incarnation, coordinator->generation()});
  }

  std::vector<Join> joins;
};

TEST_CASE("members hear of each other's addresses when all have offered one", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.ReportGroup(harness.joins[0], GroupState::kOffered, "here");
  View view = harness.ViewOf(harness.joins[0]);
  REQUIRE(view.group.size() == 2);
  CHECK(view.group[0].worker == "w0");
  CHECK(view.group[0].address.empty());
  harness.ReportGroup(harness.joins[1], GroupState::kOffered, "there");
  view = harness.ViewOf(harness.joins[0]);
  REQUIRE(view.group.size() == 2);
  CHECK(view.group[0].address == "here");
  CHECK(view.group[1].address == "there");
  harness.ReportGroup(harness.joins[0], GroupState::kFormed, "here");
  CHECK(harness.ViewOf(harness.joins[0]).group.at(1).address.empty());  // this worker has the addresses already
  harness.ReportGroup(harness.joins[1], GroupState::kOffered, "there");
  CHECK(harness.ViewOf(harness.joins[1]).group.at(0).address == "here");  // the first answer may have been lost
}

TEST_CASE("only the last version is kept where there are no snapshots", "[server][allreduce]") {
  GroupHarness harness;
  harness.config.job.steps = 3;
  harness.RunWith({"w0", "w1"});
  const Commit first = harness.DoGroupStep(0);
  CHECK_FALSE(first.next.on_shards);
  CHECK_FALSE(first.next.upload_next);
  const Commit second = harness.DoGroupStep(1);
  CHECK(second.next.upload_next);
  const Commit third = harness.DoGroupStep(2);
  CHECK(third.next.on_shards);
  CHECK(third.next.stop);
  CHECK_FALSE(third.next.upload_next);
}

TEST_CASE("a snapshot's version is asked for one step ahead", "[server][allreduce]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 3;
  harness.RunWith({"w0", "w1"});
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Commit commit = harness.DoGroupStep(step);
    const std::uint64_t version = step + 1;
    CAPTURE(version);
    CHECK(commit.next.upload_next == (version % 3 == 2));
    CHECK(commit.next.on_shards == (version % 3 == 0));
    CHECK(commit.next.snapshot == (version % 3 == 0));
    CHECK(harness.coordinator->ReaderView().readable == Step{version / 3 * 3});
    if (commit.next.snapshot) harness.Keeps(0, version);
  }
}

TEST_CASE("a worker that leaves takes the group along, and the job goes on from its step", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.Forget();
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  CHECK(Mentions(harness.Notices(), "the group of generation 1 is given up at step 1"));
  harness.PreparesWith(1, 4.0, 4.0);  // from the finished group
  CHECK(harness.TakeFromShard<Commit>(0).empty());
  harness.Pass(seconds(12), {harness.joins[0]});  // earlier members have had a lease to come back
  const Reset reset = harness.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.generation == Generation{2});
  CHECK(reset.timeline == TimelineId{1});
  CHECK(Mentions(harness.Notices(), "it goes on from step 1, the last that all had finished"));
  harness.GoOn();
  CHECK(harness.coordinator->state() == State::kRunning);
  const View view = harness.ViewOf(harness.joins[0]);
  CHECK(view.step == Step{1});
  CHECK(view.slots == std::vector<SlotIndex>{0, 1});
  CHECK(view.group.size() == 1);
  harness.DoGroupStep(1);
  CHECK(harness.coordinator->step() == Step{2});
}

TEST_CASE("a commit arrives everywhere before another group begins", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.PreparesWith(0, 4.0, 4.0);
  const Commit commit = harness.TakeFromShard<Commit>(0).at(0);
  harness.ReportGroup(harness.joins[0], GroupState::kBroken, "the connection broke to rank 1 (w1)");
  harness.Pass(seconds(3), harness.joins);
  CHECK(harness.Count<Reset>() == 0);
  harness.Commits(0, commit);
  harness.Tick(seconds(1));
  CHECK(harness.TakeFromShard<Reset>(0).at(0).generation == Generation{2});
  CHECK(Mentions(harness.coordinator->WaitingFor(harness.now), "server 0 (leaving the step under way)"));
  CHECK(Mentions(harness.Notices(), "the connection broke to rank 1 (w1)"));
}

TEST_CASE("a group that is not formed in time names who did not answer the call for it", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1", "w2"});
  harness.ReportGroup(harness.joins[0], GroupState::kOffered, "address");
  harness.ReportGroup(harness.joins[2], GroupState::kOffered, "address");
  harness.ReportGroup(harness.joins[0], GroupState::kBroken, "the addresses did not come");
  harness.Pass(seconds(3), harness.joins);
  CHECK(Mentions(harness.Notices(), "\"w0\": the addresses did not come (not there yet: \"w1\")"));
}

TEST_CASE("a group that can never form ends the job at limits.stall, however many generations come and go",
          "[server][allreduce][deadline]") {
  GroupHarness harness;
  harness.config.limits.stall = 20;
  harness.RunWith({"w0", "w1"});
  for (int i = 0; i < 30 && harness.coordinator->state() != State::kFailed; ++i) {
    for (const Join& join : harness.joins) harness.ReportGroup(join, GroupState::kOffered, "address");
    harness.ReportGroup(harness.joins[0], GroupState::kBroken, "the connection to rank 1 was refused");
    harness.Pass(seconds(2), harness.joins);
    if (harness.coordinator->state() == State::kResetting) harness.GoOn();
  }
  REQUIRE(harness.coordinator->state() == State::kFailed);
  CHECK(harness.coordinator->generation().value > 3);
  CHECK(Mentions(harness.coordinator->failure().message(), "no step was committed for 20 s"));
  CHECK(Mentions(harness.coordinator->failure().message(), "\"w0\": the connection to rank 1 was refused"));
}

TEST_CASE("a group that has lost its version goes back to the newest snapshot, and the loss is named",
          "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.ReportGroup(harness.joins[0], GroupState::kLost, "no worker has version 1 any more");
  harness.Pass(seconds(2), harness.joins);
  const Reset reset = harness.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.timeline == TimelineFrom(reset.generation));
  CHECK(reset.snapshot.IsNone());
  CHECK(Mentions(harness.Notices(), "step 1 is lost (\"w0\": no worker has version 1 any more)"));
  CHECK(Mentions(harness.Notices(), "goes back to version 0"));
}

TEST_CASE("a worker without a slot comes and goes and no group hears of it", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  const Join spare = harness.Joins("w2");
  harness.Pass(seconds(2), {harness.joins[0], harness.joins[1], spare});
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.ViewOf(spare).group.empty());
  harness.Send(harness.PeerOf(spare), harness.MakeLeave(spare));
  harness.Pass(seconds(2), harness.joins);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.Count<Reset>() == 0);
}

TEST_CASE("workers that have other sums end the job, and both are named", "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.PreparesWith(0, 4.0, 4.5);
  CHECK(harness.coordinator->state() == State::kFailed);
  CHECK(Mentions(harness.coordinator->failure().message(), "the workers of slots 0 and 1 have other sums"));
}

TEST_CASE("a stop lets steps go on until a version is with the shards", "[server][allreduce]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 100;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.coordinator->RequestStop(harness.now);
  CHECK(harness.DoGroupStep(1).next.upload_next);
  const Commit kept = harness.DoGroupStep(2);
  CHECK(kept.next.on_shards);
  CHECK(kept.next.snapshot);
  harness.PreparesWith(3, 4.0, 4.0);
  CHECK(harness.TakeFromShard<Commit>(0).empty());
  harness.Keeps(0, 3);
  harness.Tick(seconds(1));
  CHECK(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop waits for a group that is formed once more, because its version is with the workers",
          "[server][allreduce][stop]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 100;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.coordinator->RequestStop(harness.now);
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  harness.Pass(seconds(12), {harness.joins[0]});
  REQUIRE(harness.coordinator->state() == State::kResetting);
  harness.GoOn();
  CHECK(harness.DoGroupStep(1).next.upload_next);
  CHECK(harness.DoGroupStep(2).next.snapshot);
  harness.Keeps(0, 3);
  harness.Tick(seconds(1));
  CHECK(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop waits for steps that take longer than a minute", "[server][allreduce][stop]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 100;
  harness.RunWith({"w0", "w1"});
  harness.Pass(seconds(100), harness.joins);
  harness.DoGroupStep(0);
  harness.coordinator->RequestStop(harness.now);
  for (const std::uint64_t step : {1U, 2U}) {
    harness.Pass(seconds(100), harness.joins);
    harness.DoGroupStep(step);
  }
  harness.Keeps(0, 3);
  harness.Tick(seconds(1));
  CHECK(harness.coordinator->state() == State::kStopped);
  CHECK(harness.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop does not wait for a version that no worker is left to bring", "[server][allreduce][stop]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 100;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.Pass(seconds(12), harness.joins);
  harness.coordinator->RequestStop(harness.now);
  for (const Join& join : harness.joins) harness.Send(harness.PeerOf(join), harness.MakeLeave(join));
  harness.Tick(seconds(1));
  CHECK(harness.coordinator->state() == State::kStopped);
}

TEST_CASE("every_seconds asks the workers for one version each time", "[server][allreduce][snapshot]") {
  for (const std::uint64_t written_in : {0U, 2U}) {  // steps
    CAPTURE(written_in);
    GroupHarness harness;
    harness.config.job.steps = 100;
    harness.config.snapshot.every_seconds = 10;
    harness.RunWith({"w0", "w1"});
    harness.Pass(seconds(10), harness.joins);
    int kept = 0;
    std::uint64_t version = 0;
    std::vector<std::uint64_t> versions;
    for (std::uint64_t step = 0; step < 21; ++step) {
      const Commit commit = harness.DoGroupStep(step);
      kept += commit.next.upload_next ? 1 : 0;
      if (commit.next.snapshot) versions.push_back(version = step + 1);
      if (version != 0 && step + 1 == version + written_in) harness.Keeps(0, version);
      harness.Pass(seconds(2), harness.joins);
    }
    CHECK(versions == std::vector<std::uint64_t>{2, 8, 14, 20});
    CHECK(kept == 4);
  }
}

TEST_CASE("an old copy of the log is noticed also after a change of the group", "[server][allreduce][hello]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 3;
  harness.RunWith({"w0", "w1"});
  for (const std::uint64_t step : {0U, 1U, 2U}) harness.DoGroupStep(step);
  harness.Keeps(0, 3);
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  harness.Pass(seconds(12), {harness.joins[0]});
  harness.GoOn();
  REQUIRE(harness.coordinator->generation() == Generation{2});
  REQUIRE(harness.coordinator->newest_snapshot() == SnapshotId{Generation{1}, Version{3}});
  harness.Forget();
  Hello hello = harness.shards[0].hello;
  hello.incarnation = Incarnation{60};
  hello.newest_retained = SnapshotId{Generation{1}, Version{6}};  // which the newer log knows
  harness.Send(harness.shards[0].peer, hello);
  CHECK(Mentions(harness.Notices(), "the snapshot of version 6"));
  CHECK(Mentions(harness.Notices(), "its log is an old copy"));
}

TEST_CASE("a snapshot under way outlives a change of the group", "[server][allreduce][snapshot]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 3;
  harness.RunWith({"w0", "w1"});
  for (const std::uint64_t step : {0U, 1U, 2U}) harness.DoGroupStep(step);  // version 3 becomes a snapshot
  SnapshotDone done = harness.MakeDone(0, 3);
  REQUIRE(done.generation == Generation{1});
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  harness.Pass(seconds(12), {harness.joins[0]});
  harness.GoOn();
  REQUIRE(harness.coordinator->generation() == Generation{2});
  harness.Forget();
  harness.Pass(seconds(5), {harness.joins[0]});
  const std::vector<Pin> pins = harness.TakeFromShard<Pin>(0);  // the answer may have been lost
  REQUIRE(!pins.empty());
  CHECK(pins.back().generation == Generation{2});
  CHECK(pins.back().version == Version{3});
  harness.Send(harness.shards[0].peer, done);
  CHECK(harness.coordinator->newest_snapshot() == SnapshotId{Generation{1}, Version{3}});
  for (const std::uint64_t step : {3U, 4U, 5U}) harness.DoGroupStep(step);
  harness.Keeps(0, 6);
  CHECK(harness.coordinator->newest_snapshot() == SnapshotId{Generation{1}, Version{6}});
}

TEST_CASE("a snapshot has the name of its timeline, whichever group and coordinator asked for it",
          "[server][allreduce][snapshot]") {
  GroupHarness harness;
  harness.config.snapshot.every_steps = 3;
  harness.RunWith({"w0", "w1"});
  for (const std::uint64_t step : {0U, 1U, 2U}) harness.DoGroupStep(step);  // version 3 becomes a snapshot
  SnapshotDone done = harness.MakeDone(0, 3);
  harness.Live();
  harness.ShardsEchoTerm();
  harness.Pass(seconds(2), {harness.Joins("w1"), harness.Joins("w0")});
  harness.GoOn();
  REQUIRE(harness.coordinator->generation() == Generation{2});
  done.term = harness.coordinator->term();
  done.generation = Generation{2};
  harness.Send(harness.shards[0].peer, done);
  CHECK(harness.coordinator->newest_snapshot().IsNone());
  done.generation = Generation{1};
  harness.Send(harness.shards[0].peer, done);
  CHECK(harness.coordinator->newest_snapshot() == SnapshotId{Generation{1}, Version{3}});
}

TEST_CASE("a group that changes before the first weights are kept begins from nothing", "[server][allreduce][given]") {
  GroupHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  for (const char* const name : {"w1", "w2"}) {
    Join join = harness.MakeJoin(name, 1);
    join.catalog[1].init.kind = InitKind::kFromWorker;
    harness.Send(harness.PeerOf(join), join);
    harness.joins.push_back(join);
  }
  harness.AnswerReset(0);
  harness.Pass(seconds(2), harness.joins);
  REQUIRE(harness.ViewOf(harness.joins[0]).founder);
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  harness.Forget();
  harness.Pass(seconds(12), {harness.joins[0]});
  REQUIRE(harness.coordinator->generation() == Generation{2});
  CHECK(harness.TakeFromShard<Reset>(0).at(0).timeline == TimelineId{2});
}

TEST_CASE("another coordinator forms the group again, because it does not know who has which slots",
          "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.DoGroupStep(1);
  harness.Live();
  harness.ShardsEchoTerm();
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->step() == Step{2});
  const std::vector<Join> again = {harness.Joins("w1"), harness.Joins("w0")};
  harness.Pass(seconds(2), again);
  REQUIRE(harness.TakeFromShard<Reset>(0).at(0).timeline == TimelineId{1});
  harness.GoOn();
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->step() == Step{2});
  CHECK(harness.ViewOf(again[0]).slots == std::vector<SlotIndex>{0});
  harness.DoGroupStep(2);
}

TEST_CASE("a shard that is lost while the group is formed again takes all back to the snapshot",
          "[server][allreduce]") {
  GroupHarness harness;
  harness.RunWith({"w0", "w1"});
  harness.DoGroupStep(0);
  harness.ReportGroup(harness.joins[0], GroupState::kBroken, "why");
  harness.Pass(seconds(2), harness.joins);
  CHECK(harness.coordinator->state() == State::kResetting);
  harness.Forget();
  harness.Send(harness.shards[0].peer,
               ResetBad{0, harness.shards[0].hello.incarnation, harness.coordinator->generation(), "no memory of it"});
  harness.Tick(seconds(1));
  const Reset reset = harness.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.timeline == TimelineFrom(reset.generation));
  CHECK(harness.coordinator->state() == State::kResetting);
}

}  // namespace
}  // namespace capstan::server
