// Rounds of a job in mode sync: requests, retained pushes, repeated messages.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::seconds;
using Slots = std::vector<SlotIndex>;

TEST_CASE("a worker that comes anew asks every shard what it holds before it computes", "[client][round]") {
  SessionBench bench;
  bench.Join({1, 2}).Ready();
  for (ShardIndex i : {0U, 1U}) {
    const CoverageQuery query = bench.TakeFor<CoverageQuery>(i).at(0);
    CHECK(query.generation == Generation{1});
    CHECK(query.incarnation == Incarnation{50 + i});
    CHECK(query.step == Step{0});
  }
  CHECK(bench.Sent<Pull>() == 0);
  bench.FromShard(0, bench.MakeCoverage(0, 0));
  CHECK(bench.Sent<Pull>() == 0);
  bench.Tick(seconds(2));  // lost: the shard without an answer is asked again
  CHECK(bench.TakeFor<CoverageQuery>(0).empty());
  CHECK(bench.TakeFor<CoverageQuery>(1).size() == 1);
  bench.FromShard(1, bench.MakeCoverage(1, 0));
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{0, 2});
  CHECK(bench.TakeFor<Pull>(1).at(0).blocks == std::vector<BlockIndex>{1, 3});
  CHECK(bench.NoEvents());
  bench.SendWeights(2, 0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1, 2});
  CHECK(work.step == Step{0});
  CHECK(work.slot_count == 4);
  CHECK(bench.Events<Session::WeightsArrived>().at(0).block == 2);
}

TEST_CASE("every push carries the hyper-parameters that were set last, also when it is sent again", "[client][round]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Forget();
  bench.Push(work, {0, 1}, 3);
  CHECK(bench.TakeFor<capstan::Push>(1).at(0).hyper.empty());  // the job file's
  const std::vector<HyperParameters> first = {{.learning_rate = 0.5}}, second = {{.learning_rate = 0.25}};
  bench.session->SetHyperParameters(first);
  for (BlockIndex block : {2U, 1U, 0U}) bench.Push(work, {0, 1}, block);
  bench.EndSlot(work, 0);
  for (ShardIndex shard : {0U, 1U}) {
    for (const capstan::Push& push : bench.TakeFor<capstan::Push>(shard)) CHECK(push.hyper == first);
  }
  bench.session->SetHyperParameters(second);  // for the next round
  bench.Tick(seconds(2));
  bench.LoseAll();
  const std::vector<capstan::Push> again = bench.TakeFor<capstan::Push>(0);
  REQUIRE(again.size() == 2);
  CHECK(again[0].hyper == first);
}

TEST_CASE("the program's state comes with block 0 and goes with the ends of slots, also when they are sent again",
          "[client][round]") {
  SessionBench bench;
  bench.Join({0, 1}).Ready();
  bench.NothingCovered(0);
  const Slice payload = bench.Values(4, 1.0F);
  for (BlockIndex block : {1U, 0U}) {
    Weights weights = bench.MakeWeights(block, 0, payload);
    weights.updates = 41;
    if (block == 0) weights.program_state = "before";
    bench.FromShard(bench.ShardOf(block), weights, payload);
  }
  for (BlockIndex block : {2U, 3U}) bench.SendWeights(block, 0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.updates == 41);
  for (const Session::WeightsArrived& arrived : bench.Events<Session::WeightsArrived>()) {
    CHECK(arrived.program_state == (arrived.block == 0 ? "before" : ""));
  }
  bench.Forget();
  bench.EndSlot(work, 0);
  CHECK(bench.TakeFor<capstan::EndSlot>(0).at(0).program_state.empty());
  bench.EndSlot(work, 1, "after");
  CHECK(bench.TakeFor<capstan::EndSlot>(1).at(0).program_state == "after");
  bench.Tick(seconds(2));
  bench.LoseAll();
  CHECK(bench.TakeFor<capstan::EndSlot>(1).at(0).program_state == "after");
}

TEST_CASE("what shards hold already is neither computed nor pushed again", "[client][round]") {
  SessionBench bench;
  bench.Join({0, 1}).Ready();
  // The shards have all of slot 0. Of slot 1 they have block 1 only as part of a sum, and they lack its end.
  bench.FromShard(0, bench.MakeCoverage(0, 0, {{0, {0, 1}}, {2, {0, 1}}}, {0}));
  bench.FromShard(1, bench.MakeCoverage(1, 0, {{1, {0, 2}}, {3, {0, 1}}}));
  bench.SendAllWeights(0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  bench.Forget();
  bench.PushAll(work, {1, 2});
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 2);
  const std::vector<capstan::Push> pushes = bench.TakeFor<capstan::Push>(1);
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0].block == 3);
}

TEST_CASE("a slot whose gradient is held but whose end is not is computed again", "[client][round]") {
  SessionBench bench;
  bench.Join({0}).Ready();
  bench.FromShard(0, bench.MakeCoverage(0, 0, {{0, {0, 1}}, {2, {0, 1}}}));
  bench.FromShard(1, bench.MakeCoverage(1, 0, {{1, {0, 1}}, {3, {0, 1}}}));
  bench.SendAllWeights(0);
  CHECK(bench.Events<Session::WorkReady>().at(0).work.slots == Slots{0});
}

TEST_CASE("a worker whose slots are all there goes on to the next version", "[client][round]") {
  SessionBench bench;
  bench.Join({0}).Ready();
  bench.FromShard(0, bench.MakeCoverage(0, 0, {{0, {0, 4}}, {2, {0, 4}}}, {0, 2}));
  bench.FromShard(1, bench.MakeCoverage(1, 0, {{1, {0, 4}}, {3, {0, 4}}}, {1, 3}));
  CHECK(bench.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a step that has passed sends the worker to the next one", "[client][round]") {
  SessionBench bench;
  bench.Join({0}).Ready();
  Staged passed = bench.MakeCoverage(1, 0);
  passed.passed = true;
  bench.Forget();
  bench.FromShard(1, passed);
  CHECK(bench.TakeFor<CoverageQuery>(0).at(0).step == Step{1});
  bench.FromShard(0, bench.MakeError(0, Code::kBusy, 0));  // that shard has not reached the step
  bench.FromShard(1, bench.MakeCoverage(1, 1));
  bench.Tick(seconds(2));
  CHECK(bench.TakeFor<CoverageQuery>(0).size() == 1);
  bench.FromShard(0, bench.MakeCoverage(0, 1));
  CHECK(bench.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a worker that had no slots begins at the step where the job is", "[client][round]") {
  SessionBench bench;
  bench.Join({}).Ready();
  View view = bench.MakeView({});
  view.step = Step{999};
  bench.FromCoordinator(view);
  CHECK(bench.Sent<CoverageQuery>() == 0);
  CHECK(bench.session->step() == Step{999});
  view = bench.MakeView({2});
  view.step = Step{1000};
  bench.FromCoordinator(view);
  CHECK(bench.TakeFor<CoverageQuery>(0).at(0).step == Step{1000});
  Staged passed = bench.MakeCoverage(1, 1000);
  passed.passed = true;
  passed.present = Step{1700};
  bench.Forget();
  bench.FromShard(1, passed);
  CHECK(bench.TakeFor<CoverageQuery>(0).at(0).step == Step{1700});
}

TEST_CASE("a worker with slots keeps its step until the shards have passed it", "[client][round]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  View view = bench.MakeView({0});
  view.step = Step{9};
  bench.FromCoordinator(view);
  CHECK(bench.session->step() == Step{0});
  bench.Push(work, {0, 1}, 0);
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 1);
}

TEST_CASE("weights count when they are what was asked for, whole, of this life and history", "[client][pull]") {
  SessionBench bench;
  bench.Join({0}).Ready();
  bench.NothingCovered(0);
  const Slice payload = bench.Values(4, 1.0F), longer = bench.Values(5, 1.0F);
  const Weights good = bench.MakeWeights(0, 0, payload);
  std::vector<Weights> bad(7, good);
  bad[0].generation = Generation{2};
  bad[1].incarnation = Incarnation{49};
  bad[2].version = Version{1};
  bad[3].block = 1;  // the other shard's
  bad[4].block = UINT32_MAX;
  bad[5].array = 1;  // not weights
  bad[6].payload_hash ^= 1;
  for (const Weights& weights : bad) bench.FromShard(0, weights, payload);
  bench.FromShard(0, bench.MakeWeights(0, 0, longer), longer);
  bench.FromShard(0, bench.MakeWeights(0, 0, {}), {});
  bench.FromCoordinator(good);
  CHECK(bench.NoEvents());
  bench.Forget();
  bench.Tick(seconds(3));
  bench.LoseAll();
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{0, 2});  // still both
  bench.FromShard(0, good, payload);
  bench.FromShard(0, good, payload);  // doubled
  CHECK(bench.Events<Session::WeightsArrived>().size() == 1);
  bench.Forget();
  bench.Tick(seconds(3));
  bench.LoseAll();
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == std::vector<BlockIndex>{2});
}

TEST_CASE("blocks are asked for in forward order, a window at a time", "[client][pull]") {
  SessionBench bench(Mode::kSync, 80);  // 40 on each shard
  bench.Join({0}).Ready();
  bench.NothingCovered(0);
  std::vector<BlockIndex> asked;
  std::size_t outstanding = 0, arrived = 0;
  while (arrived < 40) {
    for (const Pull& pull : bench.TakeFor<Pull>(0)) {
      asked.insert(asked.end(), pull.blocks.begin(), pull.blocks.end());
      outstanding += pull.blocks.size();
    }
    REQUIRE(outstanding <= PullLine::kWindow);
    REQUIRE(outstanding > 0);
    bench.SendWeights(static_cast<BlockIndex>(2 * arrived), 0);
    ++arrived;
    --outstanding;
  }
  REQUIRE(asked.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) CHECK(asked[i] == 2 * i);
}

TEST_CASE("a gradient is kept, and sent again, until it is staged", "[client][push]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  CHECK(bench.session->unstaged_pushes() == 4);
  const std::vector<capstan::Push> first = bench.TakeFor<capstan::Push>(0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].generation == Generation{1});
  CHECK(first[0].incarnation == Incarnation{50});
  CHECK(first[0].step == Step{0});
  CHECK(first[0].node == Node{0, 1});
  CHECK(first[0].block == 2);  // backward
  CHECK(bench.TakeFor<capstan::EndSlot>(0).size() == 1);
  bench.FromShard(0, bench.MakeStaged(0, 0, {{2, {0, 2}}}));  // within a sum of our nodes and another worker's
  CHECK(bench.session->unstaged_pushes() == 3);
  Staged other = bench.MakeStaged(0, 0, {{0, {0, 1}}});
  other.generation = Generation{2};
  bench.FromShard(0, other);
  other = bench.MakeStaged(0, 0, {{0, {0, 1}}});
  other.incarnation = Incarnation{49};
  bench.FromShard(0, other);
  bench.FromShard(0, bench.MakeStaged(0, 1, {{0, {0, 1}}}));  // of another step
  bench.FromShard(0, bench.MakeStaged(0, 0, {{0, {1, 2}}}));  // another node
  bench.FromShard(1, bench.MakeStaged(1, 0, {{0, {0, 1}}}));  // not its block
  CHECK(bench.session->unstaged_pushes() == 3);
  bench.Forget();
  bench.Tick(seconds(2));
  CHECK(bench.Sent<capstan::Push>() == 0);
  bench.LoseAll();
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).block == 0);
  CHECK(bench.TakeFor<capstan::Push>(1).size() == 2);
  CHECK(bench.TakeFor<capstan::EndSlot>(0).size() == 1);
  bench.StageAll(0, {0, 1});
  CHECK(bench.session->unstaged_pushes() == 0);
  bench.Forget();
  bench.Tick(seconds(9));
  CHECK(bench.Sent<capstan::Push>() == 0);
  CHECK(bench.Sent<capstan::EndSlot>() == 0);
}

TEST_CASE("pushes stay within the credit, and go out as it grows", "[client][credit]") {
  SessionBench bench(Mode::kSync, 8);  // 4 on each shard
  const Work work = bench.Join({0}).BeginWork();
  bench.Push(work, {0, 1}, 6);  // first in shard 0's push order
  REQUIRE(bench.TakeFor<capstan::Push>(0).size() == 1);
  Staged staged = bench.MakeStaged(0, 0, {{6, {0, 1}}});
  staged.credit = 2;
  bench.FromShard(0, staged);
  for (BlockIndex block : {4U, 2U, 0U}) bench.Push(work, {0, 1}, block);
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).block == 4);
  CHECK(bench.TakeFor<capstan::Push>(0).empty());
  staged.held = {{4, {0, 1}}};
  staged.credit = 3;
  bench.FromShard(0, staged);
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).block == 2);
  bench.Forget();
  bench.Tick(seconds(2));  // the notice that the window moved may be lost: any answer carries the credit
  bench.LoseAll(3);
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).block == 2);
  Staged coverage = bench.MakeCoverage(0, 0, {{6, {0, 1}}, {4, {0, 1}}, {2, {0, 1}}});
  coverage.credit = 4;
  bench.FromShard(0, coverage);
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).block == 0);
}

TEST_CASE("what was sent beyond the shard's window goes out again", "[client][credit]") {
  SessionBench bench(Mode::kSync, 8);
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 4);  // the first guess was 16
  Staged staged = bench.MakeStaged(0, 0, {{6, {0, 1}}});
  staged.credit = 1;
  bench.FromShard(0, staged);
  CHECK(bench.TakeFor<capstan::Push>(0).empty());
  staged.held.clear();
  staged.credit = 4;
  bench.FromShard(0, staged);
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 3);
}

TEST_CASE("after its slots a worker waits for the next version, and its weights say the step is over",
          "[client][round]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  bench.Forget();
  bench.Ready();
  CHECK(bench.TakeFor<Pull>(0).at(0).version == Version{1});
  CHECK(bench.Sent<CoverageQuery>() == 0);  // no other worker can have computed slots for us there
  CHECK(bench.session->unstaged_pushes() == 4);
  bench.SendAllWeights(1);
  CHECK(bench.session->unstaged_pushes() == 0);
  const Work next = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(next.step == Step{1});
  CHECK(next.slots == Slots{0});
  CHECK(next.round != work.round);
}

TEST_CASE("slots that come while waiting for the next version are of the step before", "[client][round]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  bench.Ready();
  bench.Forget();
  bench.FromCoordinator(bench.MakeView({0, 1}));
  CHECK(bench.TakeFor<CoverageQuery>(0).at(0).step == Step{0});
  bench.NothingCovered(0);
  const Session::WorkReady ready = bench.Events<Session::WorkReady>().at(0);
  CHECK(ready.work.step == Step{0});
  CHECK(ready.work.slots == Slots{1});
  CHECK(ready.weights_held);
  CHECK(bench.Sent<Pull>() == 0);
  bench.PushAll(ready.work, {1, 2});
  bench.Forget();
  bench.Ready();
  CHECK(bench.TakeFor<Pull>(0).at(0).version == Version{1});
}

TEST_CASE("a worker without slots waits for a view", "[client][round]") {
  SessionBench bench;
  bench.Join({}).Ready();
  CHECK(bench.Sent<CoverageQuery>() + bench.Sent<Pull>() == 0);
  bench.FromCoordinator(bench.MakeView({2}));
  CHECK(bench.Sent<CoverageQuery>() == 2);
}

TEST_CASE("a stale answer moves the worker to the cluster's step", "[client][round]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.FromShard(0, bench.MakeError(0, Code::kStale, 3));
  CHECK(bench.Events<Session::WorkVoid>().at(0).round == work.round);
  bench.Forget();
  bench.PushAll(work, {0, 1});
  CHECK(bench.Sent<capstan::Push>() == 0);
  bench.Ready();
  CHECK(bench.TakeFor<CoverageQuery>(1).at(0).step == Step{3});
  bench.FromShard(0, bench.MakeError(0, Code::kStale, 2));  // late
  CHECK(bench.session->step() == Step{3});
}

TEST_CASE("an invalid push fails the session with the shard's words; a busy or corrupt one is sent again",
          "[client][push]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Push(work, {0, 1}, 0);
  bench.FromShard(0, bench.MakeError(0, Code::kBusy, 0));
  bench.FromShard(0, bench.MakeError(0, Code::kCorrupt, 0));
  Error other = bench.MakeError(0, Code::kInvalid, 0);
  other.incarnation = Incarnation{49};
  bench.FromShard(0, other);
  other = bench.MakeError(0, Code::kInvalid, 0);
  other.generation = Generation{9};
  bench.FromShard(0, other);
  CHECK(bench.NoEvents());
  bench.Forget();
  bench.Tick(seconds(2));
  bench.LoseAll();
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 1);
  bench.FromShard(0, bench.MakeError(0, Code::kInvalid, 0));
  const Status status = bench.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().find("because") != std::string::npos);
  CHECK(bench.Events<Session::WorkVoid>().size() == 1);
}

TEST_CASE("strangers, and kinds that are not for a worker, change nothing", "[client][round]") {
  SessionBench bench;
  bench.Join({0}).BeginWork();
  bench.Forget();
  const auto from = [&](PeerId peer, Header header) {
    Outbox out;
    bench.session->Handle(peer, {std::move(header), {}}, bench.now, &out);
    CHECK(out.envelopes.empty());
  };
  View done = bench.MakeView({0});
  done.phase = JobPhase::kDone;
  from(PeerId{77}, done);
  from(SessionBench::PeerOf(0), done);
  from(PeerId{77}, Error{Code::kRefused, {}, {}, {}, {}, 0, ""});
  from(SessionBench::PeerOf(0), Shutdown{});
  from(kCoordinator, Staged{});
  from(kCoordinator, Committed{});
  bench.Tick();
  CHECK(bench.NoEvents());
}

TEST_CASE("after the last version no work is asked for", "[client][end]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  bench.Ready();
  const Slice payload = bench.Values(4, 1.0F);
  Weights last = bench.MakeWeights(0, 1, payload);
  last.stop = true;
  bench.FromShard(0, last, payload);
  bench.SendWeights(1, 1);
  CHECK(bench.Events<Session::WorkReady>().empty());
  bench.Forget();
  bench.FromCoordinator(bench.MakeView({0, 1}));
  bench.Tick(seconds(9));
  CHECK(bench.Sent<Pull>() + bench.Sent<CoverageQuery>() == 0);
}

TEST_CASE("a Beat says how far the worker is and whether others wait for it", "[client][beat]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Tick(seconds(1));
  CHECK(bench.Take<Beat>(kCoordinator).back().computing);
  bench.PushAll(work, {0, 1});
  bench.Ready();
  bench.Tick(seconds(1));
  Beat beat = bench.Take<Beat>(kCoordinator).back();
  CHECK(beat.computing);  // not staged yet
  CHECK(beat.step == Step{0});
  bench.StageAll(0, {0, 1});
  bench.Tick(seconds(1));
  beat = bench.Take<Beat>(kCoordinator).back();
  CHECK(!beat.computing);
  CHECK(beat.step == Step{1});
  CHECK(beat.generation == Generation{1});
}

TEST_CASE("of two shards that have no weights yet, the one that does not answer is named", "[client][beat]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  bench.StageAll(0, {0, 1});
  bench.Ready();
  for (int i = 0; i < 5; ++i) {
    bench.Forget();
    bench.Tick(seconds(3));
    CHECK(bench.TakeFor<CoverageQuery>(1).size() == 1);
    bench.FromShard(0, bench.MakeError(0, Code::kBusy, 0));  // ahead of this shard
    bench.FromShard(0, bench.MakeError(0, Code::kBusy, 0));
  }
  CHECK(bench.Take<Beat>(kCoordinator).back().missing == std::vector<ShardIndex>{1});
  bench.FromShard(1, bench.MakeError(1, Code::kBusy, 0));
  bench.Tick(seconds(1));
  CHECK(bench.Take<Beat>(kCoordinator).back().missing.empty());
  bench.SendAllWeights(1);
  bench.Forget();
  bench.Tick(seconds(9));
  CHECK(bench.Sent<CoverageQuery>() == 0);  // nothing is awaited
}

TEST_CASE("a session can say for whom it waits", "[client][beat]") {
  SessionBench bench;
  CHECK(bench.session->WaitingFor().find("coordinator") != std::string::npos);
  const Work work = bench.Join({0}).BeginWork();
  CHECK(bench.session->WaitingFor().empty());
  bench.Push(work, {0, 1}, 1);
  CHECK(bench.session->WaitingFor().find("shard 1 at shard-1") == 0);
}

// ---- without global steps -------------------------------------------------------------------------------------------

Staged Clocks(const SessionBench& bench, ShardIndex shard, std::vector<std::uint64_t> clocks) {
  Staged staged = bench.MakeCoverage(shard, 0);
  staged.clocks = std::move(clocks);
  return staged;
}

TEST_CASE("async: a worker goes on behind the least clock of all shards, slowest slot first", "[client][async]") {
  SessionBench bench(Mode::kAsync);
  bench.Join({0, 1}).Ready();
  bench.FromShard(0, Clocks(bench, 0, {2, 1, 0, 0}));
  bench.FromShard(1, Clocks(bench, 1, {1, 4, UINT64_MAX, 0}));
  bench.SendAllWeights(9);  // of any version
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{0});
  CHECK(work.step == Step{1});
  bench.Forget();
  bench.PushAll(work, {0, 1});
  CHECK(bench.TakeFor<capstan::Push>(0).at(0).step == Step{2});  // the second of its slot
  CHECK(bench.TakeFor<capstan::EndSlot>(0).at(0).step == Step{2});
  bench.Ready();
  CHECK(bench.Sent<CoverageQuery>() == 0);
  bench.SendAllWeights(9);
  const Work next = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(next.slots == Slots{1});
  CHECK(next.step == Step{1});
}

TEST_CASE("async: the gradients of one earlier round may be on their way, not of two", "[client][async]") {
  SessionBench bench(Mode::kAsync);
  bench.Join({0}).Ready();
  bench.FromShard(0, Clocks(bench, 0, {0, 0, 0, 0}));
  bench.FromShard(1, Clocks(bench, 1, {0, 0, 0, 0}));
  Work work;
  for (int i = 0; i < 2; ++i) {
    bench.SendAllWeights(0);
    work = bench.Events<Session::WorkReady>().at(0).work;
    CHECK(work.step == Step{static_cast<std::uint64_t>(i)});
    bench.PushAll(work, {0, 1});
    bench.Forget();
    bench.Ready();
  }
  CHECK(bench.Sent<Pull>() == 0);
  bench.StageAll(1, {0, 1});
  CHECK(bench.Sent<Pull>() == 2);
}

TEST_CASE("async: a slot's clock is the least of all shards, also when the slot comes while they are asked",
          "[client][async]") {
  SessionBench bench(Mode::kAsync);
  bench.Join({0}).Ready();
  bench.FromShard(0, Clocks(bench, 0, {3, 1, 0, 0}));
  bench.FromCoordinator(bench.MakeView({1}));
  bench.FromShard(1, Clocks(bench, 1, {3, 4, 0, 0}));
  bench.SendAllWeights(0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  CHECK(work.step == Step{1});
}

TEST_CASE("async: a gap is sent again, a slot that went and came back is asked for", "[client][async]") {
  SessionBench bench(Mode::kAsync);
  bench.Join({0}).Ready();
  for (ShardIndex i : {0U, 1U}) bench.FromShard(i, Clocks(bench, i, {0, 0, 0, 0}));
  bench.SendAllWeights(0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  bench.PushAll(work, {0, 1});
  bench.Forget();
  bench.FromShard(0, bench.MakeError(0, Code::kInvalid, 0));
  CHECK(bench.Events<Session::Failed>().empty());
  bench.Tick(seconds(2));
  bench.LoseAll();
  CHECK(bench.Sent<capstan::Push>() == 4);
  bench.StageAll(1, {0, 1});
  bench.FromCoordinator(bench.MakeView({1}));
  bench.Ready();
  for (ShardIndex i : {0U, 1U}) bench.FromShard(i, Clocks(bench, i, {1, 0, 0, 0}));
  bench.SendAllWeights(0);
  CHECK(bench.Events<Session::WorkReady>().at(0).work.slots == Slots{1});
  bench.FromCoordinator(bench.MakeView({0}));
  bench.Forget();
  bench.Ready();
  CHECK(bench.Sent<CoverageQuery>() == 2);  // another worker may have continued the slot
}

TEST_CASE("async: a slot that has all its pushes is not computed again", "[client][async]") {
  SessionBench bench(Mode::kAsync);
  bench.Join({0, 1}).Ready();
  for (ShardIndex i : {0U, 1U}) bench.FromShard(i, Clocks(bench, i, {5, 4, 0, 0}));
  bench.SendAllWeights(0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  CHECK(work.slots == Slots{1});
  bench.PushAll(work, {1, 2});
  bench.Forget();
  bench.StageAll(5, {1, 2});
  bench.Ready();
  CHECK(bench.Sent<Pull>() == 0);
  CHECK(bench.Events<Session::WorkReady>().empty());
}

}  // namespace
}  // namespace capstan::client
