// Mode allreduce in the coordinator: groups of workers, and the cost of changing them.
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
#include "tests/server/coordinator/coordinator_bench.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

bool Mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

class GroupBench : public CoordinatorBench {
 public:
  explicit GroupBench(std::uint32_t workers = 2) : CoordinatorBench(1, workers, Mode::kAllReduce) {
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
  void SayGroup(const Join& join, GroupState state, const std::string& text) {
    Beat beat = MakeBeat(join);
    beat.generation = coordinator->generation();
    beat.group = state;
    beat.group_text = text;
    Send(PeerOf(join), beat);
  }
  // Sends the shard's report of a step for which the workers report these sums.
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
  // Answers as a shard does whose state a Reset left as it is.
  void GoOn() {
    shards[0].hello.generation = coordinator->generation();
    shards[0].hello.prepared.reset();
    Send(shards[0].peer, ResetDone{0, shards[0].hello.incarnation, coordinator->generation()});
  }

  std::vector<Join> joins;
};

TEST_CASE("members hear of each other's addresses when all have offered one", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.SayGroup(bench.joins[0], GroupState::kOffered, "here");
  View view = bench.ViewOf(bench.joins[0]);
  REQUIRE(view.group.size() == 2);
  CHECK(view.group[0].worker == "w0");
  CHECK(view.group[0].address.empty());
  bench.SayGroup(bench.joins[1], GroupState::kOffered, "there");
  view = bench.ViewOf(bench.joins[0]);
  REQUIRE(view.group.size() == 2);
  CHECK(view.group[0].address == "here");
  CHECK(view.group[1].address == "there");
  bench.SayGroup(bench.joins[0], GroupState::kFormed, "here");
  CHECK(bench.ViewOf(bench.joins[0]).group.at(1).address.empty());  // this worker knows it
  bench.SayGroup(bench.joins[1], GroupState::kOffered, "there");
  CHECK(bench.ViewOf(bench.joins[1]).group.at(0).address == "here");  // it may have missed the first one
}

TEST_CASE("only the last version is kept where there are no snapshots", "[server][allreduce]") {
  GroupBench bench;
  bench.config.job.steps = 3;
  bench.RunWith({"w0", "w1"});
  const Commit first = bench.DoGroupStep(0);
  CHECK_FALSE(first.next.held);
  CHECK_FALSE(first.next.keep);
  const Commit second = bench.DoGroupStep(1);
  CHECK(second.next.keep);
  const Commit third = bench.DoGroupStep(2);
  CHECK(third.next.held);
  CHECK(third.next.stop);
  CHECK_FALSE(third.next.keep);
}

TEST_CASE("a snapshot's version is asked for one step ahead", "[server][allreduce]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 3;
  bench.RunWith({"w0", "w1"});
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Commit commit = bench.DoGroupStep(step);
    const std::uint64_t version = step + 1;
    CAPTURE(version);
    CHECK(commit.next.keep == (version % 3 == 2));
    CHECK(commit.next.held == (version % 3 == 0));
    CHECK(commit.next.snapshot == (version % 3 == 0));
    CHECK(bench.coordinator->ReaderView().readable == Step{version / 3 * 3});
    if (commit.next.snapshot) bench.Keeps(0, version);
  }
}

TEST_CASE("a worker that leaves takes the group along, and the job goes on from its step", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.Forget();
  bench.Send(bench.PeerOf(bench.joins[1]), bench.MakeLeave(bench.joins[1]));
  CHECK(Mentions(bench.Notices(), "the group of generation 1 is given up at step 1"));
  bench.PreparesWith(1, 4.0, 4.0);  // from the finished group
  CHECK(bench.TakeFromShard<Commit>(0).empty());
  bench.Pass(seconds(12), {bench.joins[0]});  // other workers have had their time
  const Reset reset = bench.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.generation == Generation{2});
  CHECK(reset.history == Generation{1});
  CHECK(Mentions(bench.Notices(), "it goes on from step 1, the last that all had finished"));
  bench.GoOn();
  CHECK(bench.coordinator->state() == State::kRunning);
  const View view = bench.ViewOf(bench.joins[0]);
  CHECK(view.step == Step{1});
  CHECK(view.slots == std::vector<SlotIndex>{0, 1});
  CHECK(view.group.size() == 1);
  bench.DoGroupStep(1);
  CHECK(bench.coordinator->step() == Step{2});
}

TEST_CASE("a commit arrives everywhere before another group begins", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.PreparesWith(0, 4.0, 4.0);
  const Commit commit = bench.TakeFromShard<Commit>(0).at(0);
  bench.SayGroup(bench.joins[0], GroupState::kBroken, "the connection broke to rank 1 (w1)");
  bench.Pass(seconds(3), bench.joins);
  CHECK(bench.Count<Reset>() == 0);
  bench.Commits(0, commit);
  bench.Tick(seconds(1));
  CHECK(bench.TakeFromShard<Reset>(0).at(0).generation == Generation{2});
  CHECK(Mentions(bench.coordinator->WaitingFor(bench.now), "server 0 (leaving the step under way)"));
  CHECK(Mentions(bench.Notices(), "the connection broke to rank 1 (w1)"));
}

TEST_CASE("a group that is not formed in time names who did not answer the call for it", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1", "w2"});
  bench.SayGroup(bench.joins[0], GroupState::kOffered, "address");
  bench.SayGroup(bench.joins[2], GroupState::kOffered, "address");
  bench.SayGroup(bench.joins[0], GroupState::kBroken, "the addresses did not come");
  bench.Pass(seconds(3), bench.joins);
  CHECK(Mentions(bench.Notices(), "\"w0\": the addresses did not come (not there yet: \"w1\")"));
}

TEST_CASE("a group that can never form ends the job at limits.stall, however many generations come and go",
          "[server][allreduce][deadline]") {
  GroupBench bench;
  bench.config.limits.stall = 20;
  bench.RunWith({"w0", "w1"});
  for (int i = 0; i < 30 && bench.coordinator->state() != State::kFailed; ++i) {
    for (const Join& join : bench.joins) bench.SayGroup(join, GroupState::kOffered, "address");
    bench.SayGroup(bench.joins[0], GroupState::kBroken, "the connection to rank 1 was refused");
    bench.Pass(seconds(2), bench.joins);
    if (bench.coordinator->state() == State::kResetting) bench.GoOn();
  }
  REQUIRE(bench.coordinator->state() == State::kFailed);
  CHECK(bench.coordinator->generation().value > 3);
  CHECK(Mentions(bench.coordinator->failure().message(), "no step was committed for 20 s"));
  CHECK(Mentions(bench.coordinator->failure().message(), "\"w0\": the connection to rank 1 was refused"));
}

TEST_CASE("a group that has lost its version goes back to the newest snapshot, and the loss is named",
          "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.SayGroup(bench.joins[0], GroupState::kLost, "no worker has version 1 any more");
  bench.Pass(seconds(2), bench.joins);
  const Reset reset = bench.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.history == reset.generation);
  CHECK(reset.snapshot.IsNone());
  CHECK(Mentions(bench.Notices(), "step 1 is lost (\"w0\": no worker has version 1 any more)"));
  CHECK(Mentions(bench.Notices(), "goes back to version 0"));
}

TEST_CASE("a worker without a slot comes and goes and no group hears of it", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  const Join spare = bench.Joins("w2");
  bench.Pass(seconds(2), {bench.joins[0], bench.joins[1], spare});
  CHECK(bench.coordinator->generation() == Generation{1});
  CHECK(bench.ViewOf(spare).group.empty());
  bench.Send(bench.PeerOf(spare), bench.MakeLeave(spare));
  bench.Pass(seconds(2), bench.joins);
  CHECK(bench.coordinator->generation() == Generation{1});
  CHECK(bench.Count<Reset>() == 0);
}

TEST_CASE("workers that have other sums end the job, and both are named", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.PreparesWith(0, 4.0, 4.5);
  CHECK(bench.coordinator->state() == State::kFailed);
  CHECK(Mentions(bench.coordinator->failure().message(), "the workers of slots 0 and 1 have other sums"));
}

TEST_CASE("a stop lets steps go on until a version is with the shards", "[server][allreduce]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 100;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.coordinator->RequestStop(bench.now);
  CHECK(bench.DoGroupStep(1).next.keep);
  const Commit kept = bench.DoGroupStep(2);
  CHECK(kept.next.held);
  CHECK(kept.next.snapshot);
  bench.PreparesWith(3, 4.0, 4.0);
  CHECK(bench.TakeFromShard<Commit>(0).empty());
  bench.Keeps(0, 3);
  bench.Tick(seconds(1));
  CHECK(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop waits for a group that is formed once more, because its version is with the workers",
          "[server][allreduce][stop]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 100;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.coordinator->RequestStop(bench.now);
  bench.Send(bench.PeerOf(bench.joins[1]), bench.MakeLeave(bench.joins[1]));
  bench.Pass(seconds(12), {bench.joins[0]});
  REQUIRE(bench.coordinator->state() == State::kResetting);
  bench.GoOn();
  CHECK(bench.DoGroupStep(1).next.keep);
  CHECK(bench.DoGroupStep(2).next.snapshot);
  bench.Keeps(0, 3);
  bench.Tick(seconds(1));
  CHECK(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop waits for steps that take longer than a minute", "[server][allreduce][stop]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 100;
  bench.RunWith({"w0", "w1"});
  bench.Pass(seconds(100), bench.joins);
  bench.DoGroupStep(0);
  bench.coordinator->RequestStop(bench.now);
  for (const std::uint64_t step : {1U, 2U}) {
    bench.Pass(seconds(100), bench.joins);
    bench.DoGroupStep(step);
  }
  bench.Keeps(0, 3);
  bench.Tick(seconds(1));
  CHECK(bench.coordinator->state() == State::kStopped);
  CHECK(bench.coordinator->newest_snapshot().version == Version{3});
}

TEST_CASE("a stop does not wait for a version that no worker is left to bring", "[server][allreduce][stop]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 100;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.Pass(seconds(12), bench.joins);
  bench.coordinator->RequestStop(bench.now);
  for (const Join& join : bench.joins) bench.Send(bench.PeerOf(join), bench.MakeLeave(join));
  bench.Tick(seconds(1));
  CHECK(bench.coordinator->state() == State::kStopped);
}

TEST_CASE("every_seconds asks the workers for one version each time", "[server][allreduce][snapshot]") {
  for (const std::uint64_t written_in : {0U, 2U}) {  // steps
    CAPTURE(written_in);
    GroupBench bench;
    bench.config.job.steps = 100;
    bench.config.snapshot.every_seconds = 10;
    bench.RunWith({"w0", "w1"});
    bench.Pass(seconds(10), bench.joins);
    int kept = 0;
    std::uint64_t version = 0;
    std::vector<std::uint64_t> versions;
    for (std::uint64_t step = 0; step < 21; ++step) {
      const Commit commit = bench.DoGroupStep(step);
      kept += commit.next.keep ? 1 : 0;
      if (commit.next.snapshot) versions.push_back(version = step + 1);
      if (version != 0 && step + 1 == version + written_in) bench.Keeps(0, version);
      bench.Pass(seconds(2), bench.joins);
    }
    CHECK(versions == std::vector<std::uint64_t>{2, 8, 14, 20});
    CHECK(kept == 4);
  }
}

TEST_CASE("a snapshot under way outlives a change of the group", "[server][allreduce][snapshot]") {
  GroupBench bench;
  bench.config.snapshot.every_steps = 3;
  bench.RunWith({"w0", "w1"});
  for (const std::uint64_t step : {0U, 1U, 2U}) bench.DoGroupStep(step);  // version 3 becomes a snapshot
  SnapshotDone done = bench.MakeDone(0, 3);
  REQUIRE(done.generation == Generation{1});
  bench.Send(bench.PeerOf(bench.joins[1]), bench.MakeLeave(bench.joins[1]));
  bench.Pass(seconds(12), {bench.joins[0]});
  bench.GoOn();
  REQUIRE(bench.coordinator->generation() == Generation{2});
  bench.Forget();
  bench.Pass(seconds(5), {bench.joins[0]});
  const std::vector<Pin> pins = bench.TakeFromShard<Pin>(0);  // the answer may have been lost
  REQUIRE(!pins.empty());
  CHECK(pins.back().generation == Generation{2});
  CHECK(pins.back().version == Version{3});
  bench.Send(bench.shards[0].peer, done);
  CHECK(bench.coordinator->newest_snapshot() == SnapshotId{Generation{1}, Version{3}});
  for (const std::uint64_t step : {3U, 4U, 5U}) bench.DoGroupStep(step);
  bench.Keeps(0, 6);
  CHECK(bench.coordinator->newest_snapshot() == SnapshotId{Generation{2}, Version{6}});
}

TEST_CASE("another coordinator forms the group anew, because it does not know who has which slots",
          "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.DoGroupStep(1);
  bench.Live();
  bench.ShardsEchoTerm();
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->step() == Step{2});
  const std::vector<Join> again = {bench.Joins("w1"), bench.Joins("w0")};
  bench.Pass(seconds(2), again);
  REQUIRE(bench.TakeFromShard<Reset>(0).at(0).history == Generation{1});
  bench.GoOn();
  CHECK(bench.coordinator->state() == State::kRunning);
  CHECK(bench.coordinator->step() == Step{2});
  CHECK(bench.ViewOf(again[0]).slots == std::vector<SlotIndex>{0});
  bench.DoGroupStep(2);
}

TEST_CASE("a shard that is lost while the group is formed anew takes all back to the snapshot", "[server][allreduce]") {
  GroupBench bench;
  bench.RunWith({"w0", "w1"});
  bench.DoGroupStep(0);
  bench.SayGroup(bench.joins[0], GroupState::kBroken, "why");
  bench.Pass(seconds(2), bench.joins);
  CHECK(bench.coordinator->state() == State::kResetting);
  bench.Forget();
  bench.Send(bench.shards[0].peer,
             ResetBad{0, bench.shards[0].hello.incarnation, bench.coordinator->generation(), "no memory of it"});
  bench.Tick(seconds(1));
  const Reset reset = bench.TakeFromShard<Reset>(0).at(0);
  CHECK(reset.history == reset.generation);
  CHECK(bench.coordinator->state() == State::kResetting);
}

}  // namespace
}  // namespace capstan::server
