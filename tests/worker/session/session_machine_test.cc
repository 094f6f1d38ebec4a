// Machine reduction in a session: which pushes it defers while another worker of the machine pushes their sums, and
// when it sends them after all.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;
using Slots = std::vector<SlotIndex>;
using PushHeader = capstan::Push;

class MachineHarness : public SessionHarness {
 public:
  View MakeMachineView(std::uint64_t epoch, const std::vector<std::string>& addresses) {
    View view = MakeView({0});
    view.group_epoch = epoch;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      view.group.push_back({"w" + std::to_string(i), addresses[i]});
    }
    view.group_rank = 1;
    return view;
  }
  // Begins a round of a worker whose machine's group has epoch 5.
  RoundWork BeginMachineWork() {
    Declare();
    FromCoordinator(MakeMachineView(5, {"", ""}));
    const RoundWork work = BeginWork();
    Forget();
    return work;
  }
  std::size_t Pushed() { return TakeFor<PushHeader>(0).size() + TakeFor<PushHeader>(1).size(); }
  void Hold(const RoundWork& work) {
    for (BlockIndex block = 4; block-- > 0;) Push(work, {0, 1}, block, 1, PushWay::kDeferred);
  }
  void Release(std::uint64_t round) {
    Outbox out;
    session->ReleasePushes(round, now, &out);
    released = 0;
    for (const Envelope& one : out.envelopes) released += one.message.header.Is<PushHeader>() ? 1 : 0;
  }
  std::vector<Heartbeat> Say(std::uint64_t epoch, GroupState state, const std::string& text) {
    Outbox out;
    session->ReportMachineGroup(epoch, state, text, now, &out);
    std::vector<Heartbeat> said;
    for (const Envelope& one : out.envelopes) said.push_back(one.message.header.Get<Heartbeat>());
    return said;
  }

  std::size_t released = 0;
};

TEST_CASE("a worker hears of its machine's group, and of the addresses when all are there", "[client][machine]") {
  MachineHarness harness;
  harness.Declare();
  harness.FromCoordinator(harness.MakeMachineView(5, {"", ""}));
  const std::vector<Session::MachineGrouping> first = harness.Events<Session::MachineGrouping>();
  REQUIRE(first.size() == 1);
  CHECK(first[0].epoch == 5);
  CHECK(first[0].rank == 1);
  CHECK(harness.Say(4, GroupState::kOffered, "b").empty());  // another group's
  const std::vector<Heartbeat> said = harness.Say(5, GroupState::kOffered, "b");
  REQUIRE(said.size() == 1);
  CHECK(said[0].group == GroupState::kOffered);
  CHECK(said[0].group_epoch == 5);
  CHECK(said[0].group_text == "b");
  harness.FromCoordinator(harness.MakeMachineView(5, {"a", ""}));
  CHECK(harness.Events<Session::MachineGrouping>().empty());
  harness.FromCoordinator(harness.MakeMachineView(5, {"a", "b"}));
  const std::vector<Session::MachineGrouping> known = harness.Events<Session::MachineGrouping>();
  REQUIRE(known.size() == 1);
  CHECK(known[0].members[0].address == "a");
  harness.FromCoordinator(harness.MakeMachineView(5, {"a", "b"}));
  CHECK(harness.Events<Session::MachineGrouping>().empty());
  harness.FromCoordinator(harness.MakeMachineView(0, {}));
  const std::vector<Session::MachineGrouping> alone = harness.Events<Session::MachineGrouping>();
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].members.empty());
  CHECK(alone[0].rank == 0);  // whatever the view says
}

TEST_CASE("what is held is not sent, and is let go of when the version is published", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  CHECK(harness.session->links().unstaged_pushes() == 4);
  harness.Tick(seconds(2));
  harness.Tick(seconds(2));
  CHECK(harness.Pushed() == 0);
  harness.EndSlot(work, 0);
  harness.Ready();
  harness.SendAllWeights(1);
  CHECK(harness.session->links().unstaged_pushes() == 0);
  harness.Tick(seconds(20));
  CHECK(harness.Pushed() == 0);
}

// A shard that gets a CoverageQuery whose `question` is 0 forgets the worker's parked pull, so the worker pulls again.
TEST_CASE("a worker that asks about what is held pulls again what it waits for", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.session->SumsMade(work.round, harness.now);
  harness.EndSlot(work, 0);
  harness.Ready();
  REQUIRE(harness.TakeFor<Pull>(0).size() == 1);
  harness.TakeFor<CoverageQuery>(0);
  harness.Tick(seconds(6));
  REQUIRE(!harness.TakeFor<CoverageQuery>(0).empty());
  const std::vector<Pull> pulls = harness.TakeFor<Pull>(0);
  REQUIRE(pulls.size() == 1);
  CHECK(pulls[0].version == Version{1});
}

TEST_CASE("a sum that is staged settles what is held of it", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.Push(work, {0, 2}, 2, 2);  // a sum that this worker pushes for both
  CHECK(harness.Pushed() == 1);
  harness.FromShard(0, harness.MakeStaged(0, 0, {{2, {0, 2}}}));
  CHECK(harness.session->links().unstaged_pushes() == 3);
}

TEST_CASE("what is held is sent when it is released, and the rest of the round with it", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Push(work, {0, 1}, 3, 1, PushWay::kDeferred);
  harness.Push(work, {0, 1}, 2, 1, PushWay::kDeferred);
  harness.Release(work.round - 1);
  CHECK(harness.released == 0);
  harness.Release(work.round);
  CHECK(harness.released == 2);
  harness.Push(work, {0, 1}, 1, 1, PushWay::kDeferred);
  CHECK(harness.TakeFor<PushHeader>(1).size() == 1);
}

TEST_CASE("another group of the machine has all sent that was held for the one before", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.FromCoordinator(harness.MakeMachineView(5, {"", ""}));
  CHECK(harness.Pushed() == 0);
  harness.FromCoordinator(harness.MakeMachineView(6, {"", ""}));
  CHECK(harness.Pushed() == 4);
}

TEST_CASE("what is held is sent when nothing of it arrives for long, whatever became of the group",
          "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.session->SumsMade(work.round, harness.now);
  harness.Tick(DeferredPushes::kMost - seconds(1));
  CHECK(harness.Pushed() == 0);
  harness.Tick(seconds(1));
  CHECK(harness.Pushed() == 4);
}

TEST_CASE("what is held is held for as long as the machine's workers are at it", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.session->SumsMade(work.round - 1, harness.now);  // of an earlier round
  harness.Tick(10 * DeferredPushes::kMost);
  CHECK(harness.Pushed() == 0);
  harness.session->SumsMade(work.round, harness.now);
  harness.Tick(DeferredPushes::kMost);
  CHECK(harness.Pushed() == 4);
}

TEST_CASE("a worker says that it has left a step, whose slots it has done", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  CHECK(harness.Events<Session::StepDone>().empty());
  harness.EndSlot(work, 0);
  harness.Ready();
  const std::vector<Session::StepDone> left = harness.Events<Session::StepDone>();
  REQUIRE(left.size() == 1);
  CHECK(left[0].generation == work.generation);
  CHECK(left[0].step == work.step);
}

TEST_CASE("a worker that has ended its slots does not compute while it waits for its machine", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  const auto computes = [&] {
    harness.Forget();
    harness.Tick(seconds(1));
    const std::vector<Heartbeat> beats = harness.Take<Heartbeat>(SessionHarness::kCoordinator);
    REQUIRE_FALSE(beats.empty());
    return beats.back().computing;
  };
  harness.Hold(work);
  CHECK(computes());
  harness.EndSlot(work, 0);
  CHECK(computes());  // the EndSlot is not acknowledged yet
  Staged staged = harness.MakeStaged(0, 0);
  staged.ended = {0};
  harness.FromShard(0, staged);
  CHECK_FALSE(computes());
}

TEST_CASE("what is held waits while more and more of the sum arrives, however slowly", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.EndSlot(work, 0);
  harness.session->SumsMade(work.round, harness.now);
  for (BlockIndex block = 3; block > 0; --block) {
    harness.Forget();
    harness.Tick(DeferredPushes::kMost - seconds(1));
    const ShardIndex shard = block % 2;
    const std::vector<CoverageQuery> asked = harness.TakeFor<CoverageQuery>(shard);
    REQUIRE_FALSE(asked.empty());
    CHECK(asked.back().step == work.step);
    harness.FromShard(shard, harness.MakeCoverage(shard, work.step.value, {{block, {0, 2}}}));
  }
  CHECK(harness.Pushed() == 0);
  CHECK(harness.session->links().unstaged_pushes() == 1);
  harness.Tick(DeferredPushes::kMost);
  CHECK(harness.Pushed() == 1);
}

TEST_CASE("a shard that another worker pushes to need not answer this one", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Push(work, {0, 1}, 2, 1, PushWay::kDeferred);
  harness.Forget();
  harness.Tick(seconds(4));
  std::vector<Heartbeat> beats = harness.Take<Heartbeat>(SessionHarness::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().missing.empty());
  harness.Push(work, {0, 1}, 3);
  harness.Tick(seconds(4));
  beats = harness.Take<Heartbeat>(SessionHarness::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().missing == std::vector<ShardIndex>{1});
}

TEST_CASE("a worker whose pushes are held waits for others", "[client][machine]") {
  MachineHarness harness;
  const RoundWork work = harness.BeginMachineWork();
  harness.Hold(work);
  harness.EndSlot(work, 0);
  harness.FromShard(0, [&] {
    Staged staged = harness.MakeStaged(0, 0);
    staged.ended = {0};
    return staged;
  }());
  harness.Ready();  // for the next version
  harness.Forget();
  harness.Tick(seconds(1));
  const std::vector<Heartbeat> beats = harness.Take<Heartbeat>(SessionHarness::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK_FALSE(beats.back().computing);
}

}  // namespace
}  // namespace capstan::session
