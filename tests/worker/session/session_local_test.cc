// Workers of one machine that add up their pushes: which pushes a session holds meanwhile, and when it sends them after
// all.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::seconds;
using Slots = std::vector<SlotIndex>;
using PushHeader = capstan::Push;

class LocalBench : public SessionBench {
 public:
  View MakeLocalView(std::uint64_t epoch, const std::vector<std::string>& addresses) {
    View view = MakeView({0});
    view.group_epoch = epoch;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      view.group.push_back({SessionId{6 + i}, "w" + std::to_string(i), addresses[i]});  // the second one is this worker
    }
    return view;
  }
  // Begins a round of a worker whose group has epoch 5.
  Work BeginLocalWork() {
    Declare();
    FromCoordinator(MakeLocalView(5, {"", ""}));
    const Work work = BeginWork();
    Forget();
    return work;
  }
  std::size_t Pushed() { return TakeFor<PushHeader>(0).size() + TakeFor<PushHeader>(1).size(); }
  void Hold(const Work& work) {
    for (BlockIndex block = 4; block-- > 0;) Push(work, {0, 1}, block, 1, PushWay::kHeld);
  }
  void Release(std::uint64_t round) {
    Outbox out;
    session->ReleasePushes(round, now, &out);
    released = 0;
    for (const Envelope& one : out.envelopes) released += one.message.header.Is<PushHeader>() ? 1 : 0;
  }
  std::vector<Beat> Say(std::uint64_t epoch, GroupState state, const std::string& text) {
    Outbox out;
    session->SayLocalGroup(epoch, state, text, now, &out);
    std::vector<Beat> said;
    for (const Envelope& one : out.envelopes) said.push_back(one.message.header.Get<Beat>());
    return said;
  }

  std::size_t released = 0;
};

TEST_CASE("a worker hears of its machine's group, and of the addresses when all are there", "[client][local]") {
  LocalBench bench;
  bench.Declare();
  bench.FromCoordinator(bench.MakeLocalView(5, {"", ""}));
  const std::vector<Session::LocalGroup> first = bench.Events<Session::LocalGroup>();
  REQUIRE(first.size() == 1);
  CHECK(first[0].epoch == 5);
  CHECK(first[0].rank == 1);
  CHECK(bench.Say(4, GroupState::kOffered, "b").empty());  // another group's
  const std::vector<Beat> said = bench.Say(5, GroupState::kOffered, "b");
  REQUIRE(said.size() == 1);
  CHECK(said[0].group == GroupState::kOffered);
  CHECK(said[0].group_epoch == 5);
  CHECK(said[0].group_text == "b");
  bench.FromCoordinator(bench.MakeLocalView(5, {"a", ""}));
  CHECK(bench.Events<Session::LocalGroup>().empty());
  bench.FromCoordinator(bench.MakeLocalView(5, {"a", "b"}));
  const std::vector<Session::LocalGroup> known = bench.Events<Session::LocalGroup>();
  REQUIRE(known.size() == 1);
  CHECK(known[0].members[0].address == "a");
  bench.FromCoordinator(bench.MakeLocalView(5, {"a", "b"}));
  CHECK(bench.Events<Session::LocalGroup>().empty());
  bench.FromCoordinator(bench.MakeLocalView(0, {}));
  const std::vector<Session::LocalGroup> alone = bench.Events<Session::LocalGroup>();
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].members.empty());
}

TEST_CASE("what is held is not sent, and is let go of when the version is published", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  CHECK(bench.session->unstaged_pushes() == 4);
  bench.Tick(seconds(2));
  bench.Tick(seconds(2));
  CHECK(bench.Pushed() == 0);
  bench.EndSlot(work, 0);
  bench.Ready();
  bench.SendAllWeights(1);
  CHECK(bench.session->unstaged_pushes() == 0);
  bench.Tick(seconds(20));
  CHECK(bench.Pushed() == 0);
}

TEST_CASE("a sum that is staged settles what is held of it", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.Push(work, {0, 2}, 2, 2);  // what this worker pushes for both
  CHECK(bench.Pushed() == 1);
  bench.FromShard(0, bench.MakeStaged(0, 0, {{2, {0, 2}}}));
  CHECK(bench.session->unstaged_pushes() == 3);
}

TEST_CASE("what is held is sent when it is released, and the rest of the round with it", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Push(work, {0, 1}, 3, 1, PushWay::kHeld);
  bench.Push(work, {0, 1}, 2, 1, PushWay::kHeld);
  bench.Release(work.round - 1);
  CHECK(bench.released == 0);
  bench.Release(work.round);
  CHECK(bench.released == 2);
  bench.Push(work, {0, 1}, 1, 1, PushWay::kHeld);
  CHECK(bench.TakeFor<PushHeader>(1).size() == 1);
}

TEST_CASE("another group of the machine has all sent that was held for the one before", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.FromCoordinator(bench.MakeLocalView(5, {"", ""}));
  CHECK(bench.Pushed() == 0);
  bench.FromCoordinator(bench.MakeLocalView(6, {"", ""}));
  CHECK(bench.Pushed() == 4);
}

TEST_CASE("what is held is sent when nothing of it arrives for long, whatever became of the group", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.session->SumsMade(work.round, bench.now);
  bench.Tick(HeldPushes::kMost - seconds(1));
  CHECK(bench.Pushed() == 0);
  bench.Tick(seconds(1));
  CHECK(bench.Pushed() == 4);
}

TEST_CASE("what is held is held for as long as the machine's workers are at it", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.session->SumsMade(work.round - 1, bench.now);  // of a round before
  bench.Tick(10 * HeldPushes::kMost);
  CHECK(bench.Pushed() == 0);
  bench.session->SumsMade(work.round, bench.now);
  bench.Tick(HeldPushes::kMost);
  CHECK(bench.Pushed() == 4);
}

TEST_CASE("a worker says that it has left a step, whose slots it has done", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  CHECK(bench.Events<Session::StepLeft>().empty());
  bench.EndSlot(work, 0);
  bench.Ready();
  const std::vector<Session::StepLeft> left = bench.Events<Session::StepLeft>();
  REQUIRE(left.size() == 1);
  CHECK(left[0].generation == work.generation);
  CHECK(left[0].step == work.step);
}

TEST_CASE("a worker that has ended its slots does not compute while it waits for its machine", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  const auto computes = [&] {
    bench.Forget();
    bench.Tick(seconds(1));
    const std::vector<Beat> beats = bench.Take<Beat>(SessionBench::kCoordinator);
    REQUIRE_FALSE(beats.empty());
    return beats.back().computing;
  };
  bench.Hold(work);
  CHECK(computes());
  bench.EndSlot(work, 0);
  CHECK(computes());  // its word about the slot is on its way
  Staged staged = bench.MakeStaged(0, 0);
  staged.ended = {0};
  bench.FromShard(0, staged);
  CHECK_FALSE(computes());
}

TEST_CASE("what is held waits while more and more of the sum arrives, however slowly", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.EndSlot(work, 0);
  bench.session->SumsMade(work.round, bench.now);
  for (BlockIndex block = 3; block > 0; --block) {
    bench.Forget();
    bench.Tick(HeldPushes::kMost - seconds(1));
    const ShardIndex shard = block % 2;
    const std::vector<CoverageQuery> asked = bench.TakeFor<CoverageQuery>(shard);
    REQUIRE_FALSE(asked.empty());
    CHECK(asked.back().step == work.step);
    bench.FromShard(shard, bench.MakeCoverage(shard, work.step.value, {{block, {0, 2}}}));
  }
  CHECK(bench.Pushed() == 0);
  CHECK(bench.session->unstaged_pushes() == 1);
  bench.Tick(HeldPushes::kMost);
  CHECK(bench.Pushed() == 1);
}

TEST_CASE("a shard that another worker pushes to need not answer this one", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Push(work, {0, 1}, 2, 1, PushWay::kHeld);
  bench.Forget();
  bench.Tick(seconds(4));
  std::vector<Beat> beats = bench.Take<Beat>(SessionBench::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().missing.empty());
  bench.Push(work, {0, 1}, 3);
  bench.Tick(seconds(4));
  beats = bench.Take<Beat>(SessionBench::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().missing == std::vector<ShardIndex>{1});
}

TEST_CASE("a worker whose pushes are held waits for others", "[client][local]") {
  LocalBench bench;
  const Work work = bench.BeginLocalWork();
  bench.Hold(work);
  bench.EndSlot(work, 0);
  bench.FromShard(0, [&] {
    Staged staged = bench.MakeStaged(0, 0);
    staged.ended = {0};
    return staged;
  }());
  bench.Ready();  // for the next version
  bench.Forget();
  bench.Tick(seconds(1));
  const std::vector<Beat> beats = bench.Take<Beat>(SessionBench::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK_FALSE(beats.back().computing);
}

}  // namespace
}  // namespace capstan::client
