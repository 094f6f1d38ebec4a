// Workers of one machine: the slots they get, and the groups they are to form.
#include <algorithm>
#include <array>

#include "common/config/job/allreduce_section.h"
#include "common/config/job/job_section.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/slot_assignment.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using Slots = std::vector<SlotIndex>;

TEST_CASE("workers of one machine are dealt neighbouring slots", "[server][machine]") {
  CHECK(DealInOrderOf({0, 1, 0, 1}, 4) == std::vector<Slots>{{0}, {2}, {1}, {3}});
  CHECK(DealInOrderOf({0, 1, 0, 1}, 6) == std::vector<Slots>{{0, 1}, {4}, {2, 3}, {5}});
  CHECK(DealInOrderOf({5}, 3) == std::vector<Slots>{{0, 1, 2}});
  CHECK(DealInOrderOf({}, 3).empty());
  CHECK(DealInOrderOf({0, 1, 2}, 2) == std::vector<Slots>{{0}, {1}, {}});
}

class MachineGroupsHarness : public CoordinatorHarness {
 public:
  explicit MachineGroupsHarness(LocalReduce local_reduce = LocalReduce::kGloo) : CoordinatorHarness(1, 2) {
    config.allreduce.local_reduce = local_reduce;
    config.job.slots = config.job.global_batch = 4;
    config.job.steps = 20;
  }
  void RunWith(const std::vector<std::string>& machines) {
    Live();
    ShardsEchoTerm();
    for (const std::string& machine : machines) JoinsOn(machine);
    AnswerReset(0);
  }
  Join JoinsOn(const std::string& machine) {
    Join join = MakeJoin("w" + std::to_string(joins.size()));
    join.machine = machine;
    Send(PeerOf(join), join);
    joins.push_back(join);
    return join;
  }
  void Report(const Join& join, std::uint64_t epoch, GroupState state, const std::string& text) {
    Heartbeat beat = MakeHeartbeat(join);
    beat.generation = coordinator->generation();
    beat.group = state;
    beat.group_text = text;
    beat.group_epoch = epoch;
    Send(PeerOf(join), beat);
  }
  View View1(std::size_t worker) {
    Send(PeerOf(joins[worker]), MakeHeartbeat(joins[worker]));
    return ViewOf(joins[worker]);
  }

  std::vector<Join> joins;
};

TEST_CASE("a machine's workers hear of each other, in the order of their slots", "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "n", "m"});
  const View first = harness.View1(0), other = harness.View1(1), second = harness.View1(2);
  CHECK(first.slots == Slots{0, 1});
  CHECK(second.slots == Slots{2});
  CHECK(other.slots == Slots{3});
  REQUIRE(first.group.size() == 2);
  CHECK(first.group[0].worker == "w0");
  CHECK(first.group[1].worker == "w2");
  CHECK(first.group_epoch == second.group_epoch);
  CHECK(first.group_epoch > 0);
  CHECK(first.group_rank == 0);
  CHECK(second.group_rank == 1);
  CHECK(other.group.empty());
  CHECK(other.group_epoch == 0);
}

TEST_CASE("a job that does not ask for it has no groups and keeps its dealing", "[server][machine]") {
  MachineGroupsHarness harness(LocalReduce::kNone);
  harness.RunWith({"m", "n", "m"});
  CHECK(harness.View1(0).group.empty());
  CHECK(harness.View1(1).slots == Slots{2});
}

TEST_CASE("no worker of mode sync can begin another generation by what it says of a group", "[server][machine]") {
  MachineGroupsHarness harness(GENERATE(LocalReduce::kNone, LocalReduce::kGloo));
  harness.RunWith({"m", "m"});
  for (GroupState state : {GroupState::kBroken, GroupState::kLost}) {
    harness.Report(harness.joins[0], harness.View1(0).group_epoch, state, "trouble");
    harness.Pass(seconds(3), harness.joins);
    CHECK(harness.coordinator->state() == Coordinator::State::kRunning);
    CHECK(harness.coordinator->generation() == Generation{1});
  }
}

TEST_CASE("addresses are told when all of the group have offered theirs", "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "m"});
  const std::uint64_t epoch = harness.View1(0).group_epoch;
  harness.Report(harness.joins[0], epoch, GroupState::kOffered, "here");
  CHECK(harness.ViewOf(harness.joins[0]).group.at(0).address.empty());
  harness.Report(harness.joins[1], epoch - 1, GroupState::kOffered, "old");  // of a group that is over
  CHECK(harness.ViewOf(harness.joins[1]).group.at(0).address.empty());
  harness.Report(harness.joins[1], epoch, GroupState::kOffered, "there");
  const View view = harness.ViewOf(harness.joins[0]);
  CHECK(view.group.at(0).address == "here");
  CHECK(view.group.at(1).address == "there");
}

TEST_CASE("another worker, another slot or trouble makes another group", "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "m"});
  const std::uint64_t first = harness.View1(0).group_epoch;
  harness.Pass(seconds(2), harness.joins);
  CHECK(harness.View1(0).group_epoch == first);
  harness.JoinsOn("n");  // takes slots
  const std::uint64_t second = harness.View1(0).group_epoch;
  CHECK(second > first);
  harness.Report(harness.joins[1], first, GroupState::kBroken, "late news");
  harness.Pass(seconds(2), harness.joins);
  CHECK(harness.View1(0).group_epoch == second);
  harness.Report(harness.joins[1], second, GroupState::kBroken, "lost a neighbour");
  harness.Tick();
  const std::uint64_t third = harness.View1(0).group_epoch;
  CHECK(third > second);
  harness.Report(harness.joins[1], third, GroupState::kBroken, "again");
  harness.Tick();
  CHECK(harness.View1(0).group_epoch == third);  // not at once
  harness.Tick(2 * MachineGroups::kLasts);
  const std::uint64_t fourth = harness.View1(0).group_epoch;
  CHECK(fourth > third);
  harness.Send(harness.PeerOf(harness.joins[1]), harness.MakeLeave(harness.joins[1]));
  CHECK(harness.View1(0).group.empty());
}

TEST_CASE("where no group of a machine lives for long, another one is tried more and more seldom",
          "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "m"});
  const auto epoch = [&] { return harness.View1(0).group_epoch; };
  const auto break_it = [&] { harness.Report(harness.joins[1], epoch(), GroupState::kBroken, "cannot reach"); };
  const auto wait_for_another = [&] {
    const std::uint64_t before = epoch();
    Instant waited{};
    for (break_it(); epoch() == before && waited < 2 * MachineGroups::kLastsMax; waited += seconds(1)) {
      harness.Pass(seconds(1), harness.joins);
    }
    return waited;
  };
  std::vector<Instant> waits;
  for (int tries = 0; tries < 8; ++tries) waits.push_back(wait_for_another());
  CHECK(std::is_sorted(waits.begin(), waits.end()));
  CHECK(waits.front() <= seconds(2));
  CHECK(waits.back() == MachineGroups::kLastsMax);
  harness.Pass(MachineGroups::kLastsMax, harness.joins);  // a long life
  CHECK(wait_for_another() <= seconds(2));
  CHECK(wait_for_another() <= seconds(2));
}

TEST_CASE("a machine's workers do not wait for one that hangs, until it has done a step", "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "m", "m"});
  std::array<View, 3> views;
  const auto pass = [&](int count, std::uint64_t step, bool hangs) {
    for (int i = 0; i < count; ++i) {
      for (std::size_t worker = 0; worker < 3; ++worker) {
        Heartbeat beat = harness.MakeHeartbeat(harness.joins[worker]);
        beat.generation = harness.coordinator->generation();
        beat.computing = worker == 1 && hangs;
        beat.step = Step{beat.computing ? 0 : step};
        harness.Send(harness.PeerOf(harness.joins[worker]), beat);
        views[worker] = harness.ViewOf(harness.joins[worker]);
      }
      harness.Tick(seconds(1));
    }
  };
  const auto names = [&](std::size_t worker) {
    std::vector<std::string> all;
    for (const GroupMember& member : views[worker].group) all.push_back(member.worker);
    return all;
  };
  using Names = std::vector<std::string>;
  pass(29, 1, true);
  const std::uint64_t first = views[0].group_epoch;
  CHECK(names(0) == Names{"w0", "w1", "w2"});
  pass(3, 1, true);
  const std::uint64_t second = views[0].group_epoch;
  CHECK(second > first);
  CHECK(names(0) == Names{"w0", "w2"});
  CHECK(names(1).empty());
  CHECK(views[0].slots.size() + views[2].slots.size() == 4);  // one of them does its slots as well
  harness.DoStep(0);
  REQUIRE(harness.coordinator->state() == Coordinator::State::kRunning);
  pass(100, 2, true);  // w1 has now computed for over four times as long as step 0 took
  CHECK(views[0].group_epoch == second);
  CHECK(views[0].slots.size() + views[2].slots.size() == 4);
  pass(3, 2, false);
  CHECK(views[0].group_epoch > second);
  CHECK(names(1) == Names{"w0", "w1", "w2"});
}

TEST_CASE("another coordinator's groups are newer", "[server][machine]") {
  MachineGroupsHarness harness;
  harness.RunWith({"m", "m"});
  const std::uint64_t first = harness.View1(0).group_epoch;
  harness.joins.clear();
  harness.RunWith({"m", "m"});
  CHECK(harness.View1(0).group_epoch > first);
}

}  // namespace
}  // namespace capstan::server
