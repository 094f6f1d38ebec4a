// Rounds of a session: coverage, pulls, pushes, repeated messages, Heartbeats; in mode sync, and at the end in async.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;
using Slots = std::vector<SlotIndex>;

TEST_CASE("a worker that has just come asks every shard what it holds before it computes", "[client][round]") {
  SessionHarness harness;
  harness.Join({1, 2}).Ready();
  for (ShardIndex i : {0U, 1U}) {
    const CoverageQuery query = harness.TakeFor<CoverageQuery>(i).at(0);
    CHECK(query.generation == Generation{1});
    CHECK(query.incarnation == Incarnation{50 + i});
    CHECK(query.step == Step{0});
  }
  CHECK(harness.Sent<Pull>() == 0);
  harness.FromShard(0, harness.MakeCoverage(0, 0));
  CHECK(harness.Sent<Pull>() == 0);
  harness.Tick(seconds(2));  // lost: the shard without an answer is asked again
  CHECK(harness.TakeFor<CoverageQuery>(0).empty());
  CHECK(harness.TakeFor<CoverageQuery>(1).size() == 1);
  harness.FromShard(1, harness.MakeCoverage(1, 0));
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{0, 2});
  CHECK(harness.TakeFor<Pull>(1).at(0).blocks == std::vector<BlockIndex>{1, 3});
  CHECK(harness.NoEvents());
  harness.SendWeights(2, 0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1, 2});
  CHECK(work.step == Step{0});
  CHECK(work.slot_count == 4);
  CHECK(harness.Events<Session::WeightsArrived>().at(0).block == 2);
}

TEST_CASE("every push carries the hyper-parameters that were set last, also when it is sent again", "[client][round]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Forget();
  harness.Push(work, {0, 1}, 3);
  CHECK(harness.TakeFor<capstan::Push>(1).at(0).hyper.empty());  // the job file's
  const std::vector<HyperParameters> first = {{.learning_rate = 0.5}}, second = {{.learning_rate = 0.25}};
  harness.session->SetHyperParameters(first);
  for (BlockIndex block : {2U, 1U, 0U}) harness.Push(work, {0, 1}, block);
  harness.EndSlot(work, 0);
  for (ShardIndex shard : {0U, 1U}) {
    for (const capstan::Push& push : harness.TakeFor<capstan::Push>(shard)) CHECK(push.hyper == first);
  }
  harness.session->SetHyperParameters(second);  // for the next round
  harness.Tick(seconds(2));
  harness.LoseAll();
  const std::vector<capstan::Push> again = harness.TakeFor<capstan::Push>(0);
  REQUIRE(again.size() == 2);
  CHECK(again[0].hyper == first);
}

TEST_CASE("the program's state comes with block 0 and goes with the ends of slots, also when they are sent again",
          "[client][round]") {
  SessionHarness harness;
  harness.Join({0, 1}).Ready();
  harness.NothingCovered(0);
  const Slice payload = harness.Values(4, 1.0F);
  for (BlockIndex block : {1U, 0U}) {
    Weights weights = harness.MakeWeights(block, 0, payload);
    weights.updates = 41;
    if (block == 0) weights.program_state = "before";
    harness.FromShard(harness.ShardOf(block), weights, payload);
  }
  for (BlockIndex block : {2U, 3U}) harness.SendWeights(block, 0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.updates == 41);
  for (const Session::WeightsArrived& arrived : harness.Events<Session::WeightsArrived>()) {
    CHECK(arrived.program_state == (arrived.block == 0 ? "before" : ""));
  }
  harness.Forget();
  harness.EndSlot(work, 0);
  CHECK(harness.TakeFor<capstan::EndSlot>(0).at(0).program_state.empty());
  harness.EndSlot(work, 1, "after");
  CHECK(harness.TakeFor<capstan::EndSlot>(1).at(0).program_state == "after");
  harness.Tick(seconds(2));
  harness.LoseAll();
  CHECK(harness.TakeFor<capstan::EndSlot>(1).at(0).program_state == "after");
}

TEST_CASE("what shards hold already is neither computed nor pushed again", "[client][round]") {
  SessionHarness harness;
  harness.Join({0, 1}).Ready();
  // The shards have all of slot 0. Of slot 1 they have only block 1, inside the sum of slots 0 and 1, and not its end.
  harness.FromShard(0, harness.MakeCoverage(0, 0, {{0, {0, 1}}, {2, {0, 1}}}, {0}));
  harness.FromShard(1, harness.MakeCoverage(1, 0, {{1, {0, 2}}, {3, {0, 1}}}));
  harness.SendAllWeights(0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  harness.Forget();
  harness.PushAll(work, {1, 2});
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 2);
  const std::vector<capstan::Push> pushes = harness.TakeFor<capstan::Push>(1);
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].block == 3);
}

TEST_CASE("a slot whose gradient is held but whose end is not is computed again", "[client][round]") {
  SessionHarness harness;
  harness.Join({0}).Ready();
  harness.FromShard(0, harness.MakeCoverage(0, 0, {{0, {0, 1}}, {2, {0, 1}}}));
  harness.FromShard(1, harness.MakeCoverage(1, 0, {{1, {0, 1}}, {3, {0, 1}}}));
  harness.SendAllWeights(0);
  CHECK(harness.Events<Session::WorkReady>().at(0).work.slots == Slots{0});
}

TEST_CASE("a worker whose slots are all there goes on to the next version", "[client][round]") {
  SessionHarness harness;
  harness.Join({0}).Ready();
  harness.FromShard(0, harness.MakeCoverage(0, 0, {{0, {0, 4}}, {2, {0, 4}}}, {0, 2}));
  harness.FromShard(1, harness.MakeCoverage(1, 0, {{1, {0, 4}}, {3, {0, 4}}}, {1, 3}));
  CHECK(harness.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a step that has passed sends the worker to the next one", "[client][round]") {
  SessionHarness harness;
  harness.Join({0}).Ready();
  Staged passed = harness.MakeCoverage(1, 0);
  passed.passed = true;
  harness.Forget();
  harness.FromShard(1, passed);
  CHECK(harness.TakeFor<CoverageQuery>(0).at(0).step == Step{1});
  harness.FromShard(0, harness.MakeError(0, Code::kBusy, 0));  // that shard has not reached the step
  harness.FromShard(1, harness.MakeCoverage(1, 1));
  harness.Tick(seconds(2));
  CHECK(harness.TakeFor<CoverageQuery>(0).size() == 1);
  harness.FromShard(0, harness.MakeCoverage(0, 1));
  CHECK(harness.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a worker that had no slots begins at the step where the job is", "[client][round]") {
  SessionHarness harness;
  harness.Join({}).Ready();
  View view = harness.MakeView({});
  view.step = Step{999};
  harness.FromCoordinator(view);
  CHECK(harness.Sent<CoverageQuery>() == 0);
  CHECK(harness.session->step() == Step{999});
  view = harness.MakeView({2});
  view.step = Step{1000};
  harness.FromCoordinator(view);
  CHECK(harness.TakeFor<CoverageQuery>(0).at(0).step == Step{1000});
  Staged passed = harness.MakeCoverage(1, 1000);
  passed.passed = true;
  passed.present = Step{1700};
  harness.Forget();
  harness.FromShard(1, passed);
  CHECK(harness.TakeFor<CoverageQuery>(0).at(0).step == Step{1700});
}

TEST_CASE("a worker with slots keeps its step until the shards have passed it", "[client][round]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  View view = harness.MakeView({0});
  view.step = Step{9};
  harness.FromCoordinator(view);
  CHECK(harness.session->step() == Step{0});
  harness.Push(work, {0, 1}, 0);
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 1);
}

TEST_CASE("weights count when they are what was asked for, whole, of this incarnation and timeline", "[client][pull]") {
  SessionHarness harness;
  harness.Join({0}).Ready();
  harness.NothingCovered(0);
  const Slice payload = harness.Values(4, 1.0F), longer = harness.Values(5, 1.0F);
  const Weights good = harness.MakeWeights(0, 0, payload);
  std::vector<Weights> bad(7, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{49};
  bad[2].version = Version{1};
  bad[3].block = 1;  // a block of the other shard
  bad[4].block = UINT32_MAX;
  bad[5].array = 1;  // not weights
  bad[6].payload_hash ^= 1;
  for (const Weights& weights : bad) harness.FromShard(0, weights, payload);
  harness.FromShard(0, harness.MakeWeights(0, 0, longer), longer);
  harness.FromShard(0, harness.MakeWeights(0, 0, {}), {});
  harness.FromCoordinator(good);
  CHECK(harness.NoEvents());
  REQUIRE(harness.out().notices.size() == 1);  // the user hears of the wrong hash
  CHECK(harness.out().notices[0].text == "block 0 from shard 0 does not match its hash; it is pulled again");
  harness.Forget();
  harness.Tick(seconds(3));
  harness.LoseAll();
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{0, 2});  // both are still missing
  harness.FromShard(0, good, payload);
  harness.FromShard(0, good, payload);  // a second copy
  CHECK(harness.Events<Session::WeightsArrived>().size() == 1);
  harness.Forget();
  harness.Tick(seconds(3));
  harness.LoseAll();
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{2});
}

TEST_CASE("blocks are asked for in forward order, a window at a time", "[client][pull]") {
  SessionHarness harness(Mode::kSync, 80);  // 40 on each shard
  harness.Join({0}).Ready();
  harness.NothingCovered(0);
  std::vector<BlockIndex> asked;
  std::size_t outstanding = 0, arrived = 0;
  while (arrived < 40) {
    for (const Pull& pull : harness.TakeFor<Pull>(0)) {
      asked.insert(asked.end(), pull.blocks.begin(), pull.blocks.end());
      outstanding += pull.blocks.size();
    }
    REQUIRE(outstanding <= PullLine::kWindow);
    REQUIRE(outstanding > 0);
    harness.SendWeights(static_cast<BlockIndex>(2 * arrived), 0);
    ++arrived;
    --outstanding;
  }
  REQUIRE(asked.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) CHECK(asked[i] == 2 * i);
}

TEST_CASE("a gradient is kept, and sent again, until it is staged", "[client][push]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  CHECK(harness.session->links().unstaged_pushes() == 4);
  const std::vector<capstan::Push> first = harness.TakeFor<capstan::Push>(0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].generation == Generation{1});
  CHECK(first[0].incarnation == Incarnation{50});
  CHECK(first[0].step == Step{0});
  CHECK(first[0].node == Node{0, 1});
  CHECK(first[0].block == 2);  // the last block first
  CHECK(harness.TakeFor<capstan::EndSlot>(0).size() == 1);
  harness.FromShard(0, harness.MakeStaged(0, 0, {{2, {0, 2}}}));  // within a sum of our nodes and another worker's
  CHECK(harness.session->links().unstaged_pushes() == 3);
  Staged other = harness.MakeStaged(0, 0, {{0, {0, 1}}});
  other.generation = Generation{2};
  harness.FromShard(0, other);
  other = harness.MakeStaged(0, 0, {{0, {0, 1}}});
  other.incarnation = Incarnation{49};
  harness.FromShard(0, other);
  harness.FromShard(0, harness.MakeStaged(0, 1, {{0, {0, 1}}}));  // of another step
  harness.FromShard(0, harness.MakeStaged(0, 0, {{0, {1, 2}}}));  // another node
  harness.FromShard(1, harness.MakeStaged(1, 0, {{0, {0, 1}}}));  // not a block of that shard
  CHECK(harness.session->links().unstaged_pushes() == 3);
  harness.Forget();
  harness.Tick(seconds(2));
  CHECK(harness.Sent<capstan::Push>() == 0);
  harness.LoseAll();
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).block == 0);
  CHECK(harness.TakeFor<capstan::Push>(1).size() == 2);
  CHECK(harness.TakeFor<capstan::EndSlot>(0).size() == 1);
  harness.StageAll(0, {0, 1});
  CHECK(harness.session->links().unstaged_pushes() == 0);
  harness.Forget();
  harness.Tick(seconds(9));
  CHECK(harness.Sent<capstan::Push>() == 0);
  CHECK(harness.Sent<capstan::EndSlot>() == 0);
}

TEST_CASE("pushes stay within the credit, and go out as it grows", "[client][credit]") {
  SessionHarness harness(Mode::kSync, 8);  // 4 on each shard
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Push(work, {0, 1}, 6);  // first in shard 0's push order
  REQUIRE(harness.TakeFor<capstan::Push>(0).size() == 1);
  Staged staged = harness.MakeStaged(0, 0, {{6, {0, 1}}});
  staged.credit = 2;
  harness.FromShard(0, staged);
  for (BlockIndex block : {4U, 2U, 0U}) harness.Push(work, {0, 1}, block);
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).block == 4);
  CHECK(harness.TakeFor<capstan::Push>(0).empty());
  CHECK(harness.session->links().unstaged_pushes() == 3);
  CHECK(harness.session->links().unsent_pushes() == 2);  // blocks 2 and 0
  staged.nodes = {{4, {0, 1}}};
  staged.credit = 3;
  harness.FromShard(0, staged);
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).block == 2);
  harness.Forget();
  harness.Tick(seconds(2));  // the notice that the window moved may be lost: any answer carries the credit
  harness.LoseAll(3);
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).block == 2);
  Staged coverage = harness.MakeCoverage(0, 0, {{6, {0, 1}}, {4, {0, 1}}, {2, {0, 1}}});
  coverage.credit = 4;
  harness.FromShard(0, coverage);
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).block == 0);
}

TEST_CASE("what was sent beyond the shard's window goes out again", "[client][credit]") {
  SessionHarness harness(Mode::kSync, 8);
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 4);  // the initial credit is 16
  Staged staged = harness.MakeStaged(0, 0, {{6, {0, 1}}});
  staged.credit = 1;
  harness.FromShard(0, staged);
  CHECK(harness.TakeFor<capstan::Push>(0).empty());
  staged.nodes.clear();
  staged.credit = 4;
  harness.FromShard(0, staged);
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 3);
}

TEST_CASE("after its slots a worker waits for the next version, and its weights say the step is over",
          "[client][round]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.Forget();
  harness.Ready();
  CHECK(harness.TakeFor<Pull>(0).at(0).version == Version{1});
  CHECK(harness.Sent<CoverageQuery>() == 0);  // no other worker can have computed slots for us there
  CHECK(harness.session->links().unstaged_pushes() == 4);
  harness.SendAllWeights(1);
  CHECK(harness.session->links().unstaged_pushes() == 0);
  const RoundWork next = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(next.step == Step{1});
  CHECK(next.slots == Slots{0});
  CHECK(next.round != work.round);
}

TEST_CASE("slots that come while waiting for the next version are of the step before", "[client][round]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.Ready();
  harness.Forget();
  harness.FromCoordinator(harness.MakeView({0, 1}));
  CHECK(harness.TakeFor<CoverageQuery>(0).at(0).step == Step{0});
  harness.NothingCovered(0);
  const Session::WorkReady ready = harness.Events<Session::WorkReady>().at(0);
  CHECK(ready.work.step == Step{0});
  CHECK(ready.work.slots == Slots{1});
  CHECK(ready.weights_complete);
  CHECK(harness.Sent<Pull>() == 0);
  harness.PushAll(ready.work, {1, 2});
  harness.Forget();
  harness.Ready();
  CHECK(harness.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a worker without slots waits for a view", "[client][round]") {
  SessionHarness harness;
  harness.Join({}).Ready();
  CHECK(harness.Sent<CoverageQuery>() + harness.Sent<Pull>() == 0);
  harness.FromCoordinator(harness.MakeView({2}));
  CHECK(harness.Sent<CoverageQuery>() == 2);
}

TEST_CASE("a stale answer moves the worker to the cluster's step", "[client][round]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.FromShard(0, harness.MakeError(0, Code::kStale, 3));
  CHECK(harness.Events<Session::WorkVoid>().at(0).round == work.round);
  harness.Forget();
  harness.PushAll(work, {0, 1});
  CHECK(harness.Sent<capstan::Push>() == 0);
  harness.Ready();
  CHECK(harness.TakeFor<CoverageQuery>(1).at(0).step == Step{3});
  harness.FromShard(0, harness.MakeError(0, Code::kStale, 2));  // late
  CHECK(harness.session->step() == Step{3});
}

TEST_CASE("an invalid push fails the session with the shard's words; a busy or corrupt one is sent again",
          "[client][push]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Push(work, {0, 1}, 0);
  harness.FromShard(0, harness.MakeError(0, Code::kBusy, 0));
  harness.FromShard(0, harness.MakeError(0, Code::kCorrupt, 0));
  REQUIRE(harness.out().notices.size() == 1);
  CHECK_THAT(harness.out().notices[0].text,
             Catch::Matchers::StartsWith("shard 0 refused a payload, which is sent again: "));
  Error other = harness.MakeError(0, Code::kInvalid, 0);
  other.incarnation = Incarnation{49};
  harness.FromShard(0, other);
  other = harness.MakeError(0, Code::kInvalid, 0);
  other.generation = Generation{9};
  harness.FromShard(0, other);
  CHECK(harness.NoEvents());
  harness.Forget();
  harness.Tick(seconds(2));
  harness.LoseAll();
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 1);
  harness.FromShard(0, harness.MakeError(0, Code::kInvalid, 0));
  const Status status = harness.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().find("because") != std::string::npos);
  CHECK(harness.Events<Session::WorkVoid>().size() == 1);
}

TEST_CASE("strangers, and kinds that are not for a worker, change nothing", "[client][round]") {
  SessionHarness harness;
  harness.Join({0}).BeginWork();
  harness.Forget();
  const auto from = [&](PeerId peer, Header header) {
    Outbox out;
    harness.session->Handle(peer, {std::move(header), {}}, harness.now, &out);
    CHECK(out.envelopes.empty());
  };
  View done = harness.MakeView({0});
  done.phase = JobPhase::kDone;
  from(PeerId{77}, done);
  from(SessionHarness::PeerOf(0), done);
  from(PeerId{77}, Error{Code::kRefused, {}, {}, {}, {}, 0, ""});
  from(SessionHarness::PeerOf(0), Shutdown{});
  from(kCoordinator, Staged{});
  from(kCoordinator, Committed{});
  harness.Tick();
  CHECK(harness.NoEvents());
}

TEST_CASE("after the last version no work is asked for", "[client][end]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.Ready();
  const Slice payload = harness.Values(4, 1.0F);
  Weights last = harness.MakeWeights(0, 1, payload);
  last.stop = true;
  harness.FromShard(0, last, payload);
  harness.SendWeights(1, 1);
  CHECK(harness.Events<Session::WorkReady>().empty());
  harness.Forget();
  harness.FromCoordinator(harness.MakeView({0, 1}));
  harness.Tick(seconds(9));
  CHECK(harness.Sent<Pull>() + harness.Sent<CoverageQuery>() == 0);
}

TEST_CASE("a Heartbeat says how far the worker is and whether others wait for it", "[client][beat]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Tick(seconds(1));
  CHECK(harness.Take<Heartbeat>(kCoordinator).back().computing);
  harness.PushAll(work, {0, 1});
  harness.Ready();
  harness.Tick(seconds(1));
  Heartbeat beat = harness.Take<Heartbeat>(kCoordinator).back();
  CHECK(beat.computing);  // not staged yet
  CHECK(beat.step == Step{0});
  harness.StageAll(0, {0, 1});
  harness.Tick(seconds(1));
  beat = harness.Take<Heartbeat>(kCoordinator).back();
  CHECK(!beat.computing);
  CHECK(beat.step == Step{1});
  CHECK(beat.generation == Generation{1});
}

TEST_CASE("of two shards that have no weights yet, the one that does not answer is named", "[client][beat]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.StageAll(0, {0, 1});
  harness.Ready();
  for (int i = 0; i < 5; ++i) {
    harness.Forget();
    harness.Tick(seconds(3));
    CHECK(harness.TakeFor<CoverageQuery>(1).size() == 1);
    harness.FromShard(0, harness.MakeError(0, Code::kBusy, 0));  // ahead of this shard
    harness.FromShard(0, harness.MakeError(0, Code::kBusy, 0));
  }
  CHECK(harness.Take<Heartbeat>(kCoordinator).back().missing == std::vector<ShardIndex>{1});
  harness.FromShard(1, harness.MakeError(1, Code::kBusy, 0));
  harness.Tick(seconds(1));
  CHECK(harness.Take<Heartbeat>(kCoordinator).back().missing.empty());
  harness.SendAllWeights(1);
  harness.Forget();
  harness.Tick(seconds(9));
  CHECK(harness.Sent<CoverageQuery>() == 0);  // nothing is awaited
}

TEST_CASE("a session can say for whom it waits", "[client][beat]") {
  SessionHarness harness;
  CHECK(harness.session->WaitingFor().find("coordinator") != std::string::npos);
  const RoundWork work = harness.Join({0}).BeginWork();
  CHECK(harness.session->WaitingFor().empty());
  harness.Push(work, {0, 1}, 1);
  CHECK(harness.session->WaitingFor().find("shard 1 at shard-1") == 0);
}

// ---- without global steps -------------------------------------------------------------------------------------------

Staged Clocks(const SessionHarness& harness, ShardIndex shard, const std::vector<std::uint64_t>& clocks) {
  Staged staged = harness.MakeCoverage(shard, 0);
  for (const std::uint64_t clock : clocks) staged.clocks.push_back({clock});
  return staged;
}

TEST_CASE("async: a worker goes on behind the least clock of all shards, slowest slot first", "[client][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0, 1}).Ready();
  harness.FromShard(0, Clocks(harness, 0, {2, 1, 0, 0}));
  harness.FromShard(1, Clocks(harness, 1, {1, 4, UINT64_MAX, 0}));
  harness.SendAllWeights(9);  // of any version
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{0});
  CHECK(work.step == Step{1});
  harness.Forget();
  harness.PushAll(work, {0, 1});
  CHECK(harness.TakeFor<capstan::Push>(0).at(0).step == Step{2});  // the second of its slot
  CHECK(harness.TakeFor<capstan::EndSlot>(0).at(0).step == Step{2});
  harness.Ready();
  CHECK(harness.Sent<CoverageQuery>() == 0);
  harness.SendAllWeights(9);
  const RoundWork next = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(next.slots == Slots{1});
  CHECK(next.step == Step{1});
}

TEST_CASE("async: the gradients of one earlier round may be in flight, not of two", "[client][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0}).Ready();
  harness.FromShard(0, Clocks(harness, 0, {0, 0, 0, 0}));
  harness.FromShard(1, Clocks(harness, 1, {0, 0, 0, 0}));
  RoundWork work;
  for (int i = 0; i < 2; ++i) {
    harness.SendAllWeights(0);
    work = harness.Events<Session::WorkReady>().at(0).work;
    CHECK(work.step == Step{static_cast<std::uint64_t>(i)});
    harness.PushAll(work, {0, 1});
    harness.Forget();
    harness.Ready();
  }
  CHECK(harness.Sent<Pull>() == 0);
  harness.StageAll(1, {0, 1});
  CHECK(harness.Sent<Pull>() == 2);
}

TEST_CASE("async: a slot's clock is the least of all shards, also when the slot comes while they are asked",
          "[client][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0}).Ready();
  harness.FromShard(0, Clocks(harness, 0, {3, 1, 0, 0}));
  harness.FromCoordinator(harness.MakeView({1}));
  harness.FromShard(1, Clocks(harness, 1, {3, 4, 0, 0}));
  harness.SendAllWeights(0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  CHECK(work.step == Step{1});
}

TEST_CASE("async: a gap is sent again, a slot that went and came back is asked for", "[client][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0}).Ready();
  for (ShardIndex i : {0U, 1U}) harness.FromShard(i, Clocks(harness, i, {0, 0, 0, 0}));
  harness.SendAllWeights(0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  harness.PushAll(work, {0, 1});
  harness.Forget();
  harness.FromShard(0, harness.MakeError(0, Code::kInvalid, 0));
  CHECK(harness.Events<Session::Failed>().empty());
  harness.Tick(seconds(2));
  harness.LoseAll();
  CHECK(harness.Sent<capstan::Push>() == 4);
  harness.StageAll(1, {0, 1});
  harness.FromCoordinator(harness.MakeView({1}));
  harness.Ready();
  for (ShardIndex i : {0U, 1U}) harness.FromShard(i, Clocks(harness, i, {1, 0, 0, 0}));
  harness.SendAllWeights(0);
  CHECK(harness.Events<Session::WorkReady>().at(0).work.slots == Slots{1});
  harness.FromCoordinator(harness.MakeView({0}));
  harness.Forget();
  harness.Ready();
  CHECK(harness.Sent<CoverageQuery>() == 2);  // another worker may have continued the slot
}

TEST_CASE("async: a slot that has all its pushes is not computed again", "[client][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0, 1}).Ready();
  for (ShardIndex i : {0U, 1U}) harness.FromShard(i, Clocks(harness, i, {5, 4, 0, 0}));
  harness.SendAllWeights(0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  harness.PushAll(work, {1, 2});
  harness.Forget();
  harness.StageAll(5, {1, 2});
  harness.Ready();
  CHECK(harness.Sent<Pull>() == 0);
  CHECK(harness.Events<Session::WorkReady>().empty());
}

}  // namespace
}  // namespace capstan::session
