// The rules of machine reduction, one event at a time: which commands follow from which events.
#include "worker/machine/machine_reduce_core.h"

#include <algorithm>

#include "tests/catch.h"

namespace capstan::train {
namespace {

using session::MachineGrouping;
using session::PushWay;

constexpr Bucket kLast{2, 3, 8, 8, false}, kFirst{0, 1, 0, 8, false};

// The core of member `rank` of two, and its commands that the test has not taken yet, oldest first.
class Bench {
 public:
  explicit Bench(int rank = 0) : core({kLast, kFirst}), rank_(rank) {}

  MachineGrouping Grouping(std::uint64_t epoch, bool has_addresses = true) const {
    MachineGrouping group{epoch, {}, rank_};
    for (std::uint64_t i = 0; i < 2; ++i) group.members.push_back({"w", has_addresses ? "a" : ""});
    return group;
  }
  client::MachineRound Round(std::uint64_t round, std::uint64_t step) const {
    const auto slot = static_cast<SlotIndex>(rank_);
    return {round, Generation{1}, Step{step}, 2, 1.0F, {{{slot, slot + 1}, 2, {}}}};
  }
  MachineHead Head(int rank, std::uint64_t step, bool joins = true) const {
    const auto slot = static_cast<SlotIndex>(rank);
    MachineHead head{Generation{1}, Step{step}, joins, {}};
    if (joins) head.parts.push_back({{slot, slot + 1}, 2});
    return head;
  }
  // Forms a group, and takes its commands. The group then waits for a round.
  void Form(std::uint64_t epoch, std::size_t ahead_max = 0) {
    core.TakeGroup(Grouping(epoch), &out);
    (void)Take<FormGroupCommand>();
    core.Formed(ahead_max, &out);
    CHECK(Take<ReportGroupCommand>().state == GroupState::kFormed);
  }
  PushWay Begin(std::uint64_t round, std::uint64_t step) { return core.BeginRound(Round(round, step), &out); }
  void Meet(std::uint64_t mine, std::uint64_t its, bool it_joins = true) {
    (void)Take<MeetCommand>();
    const MachineHead own = Head(rank_, mine), other = Head(1 - rank_, its, it_joins);
    core.Met(rank_ == 0 ? std::vector{own, other} : std::vector{other, own}, &out);
  }
  void Ready(BlockIndex first, BlockIndex last) {
    for (BlockIndex block = last + 1; block-- > first;) core.BlockReady(block, &out);
  }
  // Removes and returns the next command, which must be of this kind.
  template <class Command>
  Command Take() {
    REQUIRE(!out.empty());
    MachineCommand command = std::move(out.front());
    out.erase(out.begin());
    REQUIRE(std::holds_alternative<Command>(command));
    return std::get<Command>(std::move(command));
  }
  template <class Command>
  bool Is() const {
    return !out.empty() && std::holds_alternative<Command>(out.front());
  }
  // Returns the kinds of the commands that were not taken yet, as indices of MachineCommand's alternatives.
  std::vector<std::size_t> Kinds() const {
    std::vector<std::size_t> kinds;
    for (const MachineCommand& command : out) kinds.push_back(command.index());
    return kinds;
  }

  MachineReduceCore core;
  MachineReduceCore::Commands out;

 private:
  const int rank_;
};

TEST_CASE("a group is formed with the addresses of all its members", "[machine]") {
  Bench bench;
  bench.core.TakeGroup(bench.Grouping(5, false), &bench.out);
  CHECK(bench.Take<FormGroupCommand>().group.epoch == 5);
  bench.core.Offered("here", &bench.out);
  const ReportGroupCommand offered = bench.Take<ReportGroupCommand>();
  CHECK(offered.epoch == 5);
  CHECK(offered.state == GroupState::kOffered);
  CHECK(offered.text == "here");
  CHECK(bench.core.Addresses().value().empty());
  bench.core.TakeGroup(bench.Grouping(5), &bench.out);
  CHECK(bench.out.empty());
  CHECK(bench.core.Addresses().value() == std::vector<std::string>{"a", "a"});
  CHECK(bench.Begin(10, 0) == PushWay::kNow);  // it is not formed yet
  bench.core.Formed(0, &bench.out);
  const ReportGroupCommand formed = bench.Take<ReportGroupCommand>();
  CHECK(formed.state == GroupState::kFormed);
  CHECK(formed.text == "here");                       // another member may not know it yet
  CHECK_FALSE(bench.Take<MeetCommand>().head.joins);  // the members learn that this round is pushed already
}

TEST_CASE("a worker without neighbours forms no group", "[machine]") {
  Bench bench;
  bench.core.TakeGroup({7, {}, 0}, &bench.out);
  CHECK(bench.Begin(10, 0) == PushWay::kNow);
  CHECK(bench.core.may_end_round());
  bench.core.TakeStepDone({Generation{1}, Step{1}}, &bench.out);
  CHECK(bench.out.empty());
  bench.core.Stop(&bench.out);
  CHECK(bench.out.empty());
  CHECK(bench.core.has_ended());
}

TEST_CASE("the first member adds up bucket by bucket, as their blocks become final", "[machine]") {
  Bench bench;
  bench.Form(5);
  CHECK(bench.Begin(10, 3) == PushWay::kDeferred);
  bench.Ready(2, 3);
  bench.Meet(3, 3);
  const BeginStepCommand step = bench.Take<BeginStepCommand>();
  CHECK(step.is_first);
  CHECK(step.round.round == 10);
  CHECK(step.plan.sums == std::vector<MachinePlan::Sum>{{{0, 2}, 4}});
  CHECK(bench.Take<BeginBucketCommand>().bucket == 0);
  bench.core.BucketBegun(&bench.out);
  (void)bench.Take<FinishBucketCommand>();
  bench.core.BucketFinished(&bench.out);
  CHECK(bench.out.empty());  // the other bucket is not final yet
  bench.Ready(1, 1);
  CHECK(bench.out.empty());
  bench.Ready(0, 0);
  CHECK(bench.Take<BeginBucketCommand>().bucket == 1);
  bench.core.BucketBegun(&bench.out);
  (void)bench.Take<FinishBucketCommand>();
  CHECK_FALSE(bench.core.may_end_round());
  bench.core.BucketFinished(&bench.out);
  (void)bench.Take<EndStepCommand>();
  CHECK(bench.Take<KeepDeferredCommand>().round == 10);
  CHECK_FALSE(bench.core.may_end_round());  // the session does not know yet
  bench.core.Settled(&bench.out);
  CHECK(bench.core.may_end_round());
  CHECK(bench.out.empty());
}

TEST_CASE("a member that does not push may end its round at once", "[machine]") {
  Bench bench(1);
  bench.Form(5);
  CHECK(bench.Begin(10, 3) == PushWay::kDeferred);
  CHECK(bench.core.may_end_round());
  bench.Meet(3, 3);
  CHECK_FALSE(bench.Take<BeginStepCommand>().is_first);
}

TEST_CASE("with devices a bucket is begun before the last one is finished, but not while the next one is awaited",
          "[machine]") {
  Bench bench;
  bench.Form(5, 1);
  (void)bench.Begin(10, 3);
  bench.Meet(3, 3);
  (void)bench.Take<BeginStepCommand>();
  const bool comes_soon = GENERATE(true, false);
  bench.Ready(2, 3);
  if (comes_soon) bench.Ready(0, 1);
  CHECK(bench.Take<BeginBucketCommand>().bucket == 0);
  bench.core.BucketBegun(&bench.out);
  if (!comes_soon) {
    (void)bench.Take<FinishBucketCommand>();
    bench.Ready(0, 1);
    CHECK(bench.out.empty());  // the thread is at work
    bench.core.BucketFinished(&bench.out);
  }
  CHECK(bench.Take<BeginBucketCommand>().bucket == 1);
  bench.core.BucketBegun(&bench.out);
  for (int left = comes_soon ? 2 : 1; left > 0; --left) {
    (void)bench.Take<FinishBucketCommand>();
    bench.core.BucketFinished(&bench.out);
  }
  (void)bench.Take<EndStepCommand>();
}

TEST_CASE("a member on an older step pushes by itself, and one on a newer step meets again", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 3);
  bench.Meet(3, 4);
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
  bench.core.Settled(&bench.out);
  CHECK(bench.core.may_end_round());
  CHECK(bench.out.empty());
  (void)bench.Begin(11, 4);
  bench.Meet(4, 3);
  bench.Meet(4, 4);
  CHECK(bench.Is<BeginStepCommand>());
}

TEST_CASE("members of one step push by themselves if one of them does, or if they have no sum", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 3);
  SECTION("one pushes by itself") { bench.Meet(3, 3, false); }
  SECTION("two compute the same slot") {
    (void)bench.Take<MeetCommand>();
    bench.core.Met({bench.Head(0, 3), bench.Head(0, 3)}, &bench.out);
  }
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
}

TEST_CASE("a second round of a step, and one with many parts, are pushed at once", "[machine]") {
  Bench bench;
  bench.Form(5);
  CHECK(bench.Begin(10, 3) == PushWay::kDeferred);
  CHECK(bench.Begin(11, 3) == PushWay::kNow);
  CHECK(bench.core.may_end_round());
  client::MachineRound many = bench.Round(12, 4);
  many.parts.resize(MachineHead::kPartsMax + 1, many.parts.front());
  CHECK(bench.core.BeginRound(many, &bench.out) == PushWay::kNow);
}

TEST_CASE("a step that the worker has left is not waited for, and is no round", "[machine]") {
  Bench bench;
  bench.Form(5);
  bench.core.TakeStepDone({Generation{1}, Step{3}}, &bench.out);
  const MachineHead head = bench.Take<MeetCommand>().head;
  CHECK(head.step == Step{3});
  CHECK_FALSE(head.joins);
  CHECK(bench.Begin(10, 3) == PushWay::kNow);
}

TEST_CASE("a round given up before the members meet is not joined", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 2);
  const MeetCommand before = bench.Take<MeetCommand>();
  CHECK(before.head.joins);
  (void)bench.Begin(11, 3);
  bench.core.GiveUpRound(&bench.out);
  CHECK(bench.out.empty());  // the thread still meets the others for the step before
  bench.core.Met({bench.Head(0, 2), bench.Head(1, 3)}, &bench.out);
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
  bench.core.Settled(&bench.out);
  CHECK_FALSE(bench.Take<MeetCommand>().head.joins);
}

TEST_CASE("a round given up while it is added up ends the group, unless all its blocks are final", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 3);
  bench.Meet(3, 3);
  (void)bench.Take<BeginStepCommand>();
  if (GENERATE(true, false)) {
    bench.Ready(0, 3);
    bench.core.GiveUpRound(&bench.out);
    (void)bench.Take<BeginBucketCommand>();
    bench.core.BucketBegun(&bench.out);
    CHECK(bench.Is<FinishBucketCommand>());
    return;
  }
  bench.Ready(2, 3);
  (void)bench.Take<BeginBucketCommand>();
  bench.core.GiveUpRound(&bench.out);
  bench.core.BucketBegun(&bench.out);
  (void)bench.Take<FinishBucketCommand>();
  bench.core.BucketFinished(&bench.out);
  (void)bench.Take<DropGroupCommand>();
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
  bench.core.Settled(&bench.out);
  CHECK(bench.Take<NoticeCommand>().text.find("its round was given up") != std::string::npos);
  const ReportGroupCommand report = bench.Take<ReportGroupCommand>();
  CHECK(report.epoch == 5);
  CHECK(report.state == GroupState::kBroken);
}

TEST_CASE("a lost member has the newest round released, and the group reported", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 3);
  bench.Meet(3, 3);
  (void)bench.Take<BeginStepCommand>();
  bench.Ready(0, 3);
  (void)bench.Take<BeginBucketCommand>();
  bench.core.Failed(Unreachable("w1 is lost"), &bench.out);
  CHECK(bench.Begin(11, 4) == PushWay::kNow);
  (void)bench.Take<DropGroupCommand>();
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
  bench.core.Settled(&bench.out);
  (void)bench.Take<NoticeCommand>();
  const ReportGroupCommand report = bench.Take<ReportGroupCommand>();
  CHECK(report.state == GroupState::kBroken);
  CHECK(report.text == "w1 is lost");
  CHECK(bench.out.empty());
  bench.core.TakeGroup(bench.Grouping(5), &bench.out);  // the same group is not begun again
  CHECK(bench.out.empty());
}

TEST_CASE("a round whose sums were pushed is released too when its group breaks", "[machine]") {
  Bench bench(1);
  bench.Form(5);
  (void)bench.Begin(10, 3);
  bench.Ready(0, 3);
  bench.Meet(3, 3);
  (void)bench.Take<BeginStepCommand>();
  for (int bucket = 0; bucket < 2; ++bucket) {
    (void)bench.Take<BeginBucketCommand>();
    bench.core.BucketBegun(&bench.out);
    (void)bench.Take<FinishBucketCommand>();
    bench.core.BucketFinished(&bench.out);
  }
  (void)bench.Take<EndStepCommand>();
  (void)bench.Take<KeepDeferredCommand>();
  bench.core.Settled(&bench.out);
  bench.core.TakeGroup(bench.Grouping(6), &bench.out);
  (void)bench.Take<AbortGroupCommand>();
  (void)bench.Take<DropGroupCommand>();
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
}

TEST_CASE("a failure that will not change is not reported", "[machine]") {
  Bench bench;
  bench.core.TakeGroup(bench.Grouping(5), &bench.out);
  (void)bench.Take<FormGroupCommand>();
  bench.core.Failed(GENERATE(Unsupported("no Gloo"), Invalid("too many")), &bench.out);
  (void)bench.Take<DropGroupCommand>();
  (void)bench.Take<NoticeCommand>();
  CHECK(bench.out.empty());
}

// Lets the core do one whole step in a new group, and returns the kinds of its commands.
std::vector<std::size_t> Course(Bench* bench, std::uint64_t epoch, std::uint64_t round, std::uint64_t step) {
  bench->core.TakeGroup(bench->Grouping(epoch), &bench->out);
  std::vector<std::size_t> kinds = bench->Kinds();
  const auto go_on = [&](auto&& event) {
    bench->out.clear();
    event();
    for (const std::size_t kind : bench->Kinds()) kinds.push_back(kind);
  };
  go_on([&] { bench->core.Formed(0, &bench->out); });
  if (std::holds_alternative<MeetCommand>(bench->out.back())) {  // for a round that began before
    go_on([&] { bench->core.Met({bench->Head(0, 3, false), bench->Head(1, 3, false)}, &bench->out); });
    go_on([&] { bench->core.Settled(&bench->out); });
  }
  go_on([&] { CHECK(bench->Begin(round, step) == PushWay::kDeferred); });
  go_on([&] { bench->core.Met({bench->Head(0, step), bench->Head(1, step)}, &bench->out); });
  go_on([&] { bench->Ready(0, 3); });
  for (int bucket = 0; bucket < 2; ++bucket) {
    go_on([&] { bench->core.BucketBegun(&bench->out); });
    go_on([&] { bench->core.BucketFinished(&bench->out); });
  }
  go_on([&] { bench->core.Settled(&bench->out); });
  CHECK(bench->core.may_end_round());
  return kinds;
}

TEST_CASE("a new epoch begins as a fresh core does, wherever the epoch before was left", "[machine]") {
  const int left_at = GENERATE(range(0, 6));
  Bench fresh;
  if (left_at >= 2)
    CHECK(fresh.Begin(10, 3) == PushWay::kNow);  // the newest round belongs to the worker, not to a group
  const std::vector<std::size_t> expected = Course(&fresh, 6, 20, 9);

  Bench bench;
  bench.core.TakeGroup(bench.Grouping(5), &bench.out);
  const auto answer = [&](int stage, auto&& event) {
    if (left_at >= stage) event();
  };
  answer(1, [&] { bench.core.Formed(1, &bench.out); });
  answer(2, [&] { (void)bench.Begin(10, 3); });
  answer(3, [&] { bench.core.Met({bench.Head(0, 3), bench.Head(1, 3)}, &bench.out); });
  answer(4, [&] { bench.Ready(2, 3); });
  answer(5, [&] { bench.core.BucketBegun(&bench.out); });
  bench.core.TakeGroup({}, &bench.out);
  CHECK(std::count_if(bench.out.begin(), bench.out.end(), [](const MachineCommand& command) {
          return std::holds_alternative<AbortGroupCommand>(command);
        }) == 1);
  const bool is_asked =
      left_at == 0 || left_at == 2 || left_at >= 4;  // else the core waits, and ends the group at once
  if (is_asked) bench.core.Failed({Code::kUnreachable, "aborted"}, &bench.out);
  if (left_at >= 2) bench.core.Settled(&bench.out);  // of the round that was released
  bench.out.clear();
  CHECK(Course(&bench, 6, 20, 9) == expected);
}

TEST_CASE("rounds of another generation count as later, whatever their step", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 7);
  bench.Meet(7, 7, false);
  (void)bench.Take<ReleaseRoundCommand>();
  bench.core.Settled(&bench.out);
  client::MachineRound again = bench.Round(11, 2);
  again.generation = Generation{2};
  CHECK(bench.core.BeginRound(again, &bench.out) == PushWay::kDeferred);
  CHECK(bench.Take<MeetCommand>().head.generation == Generation{2});
  bench.core.Met({bench.Head(0, 2), bench.Head(1, 2)}, &bench.out);  // heads of generation 1 are older
  CHECK(bench.Is<MeetCommand>());
}

TEST_CASE("a stop ends the group, and releases its round", "[machine]") {
  Bench bench;
  bench.Form(5);
  (void)bench.Begin(10, 3);
  (void)bench.Take<MeetCommand>();
  bench.core.Stop(&bench.out);
  (void)bench.Take<AbortGroupCommand>();
  CHECK(bench.out.empty());
  CHECK_FALSE(bench.core.has_ended());
  bench.core.Failed(Unreachable("aborted"), &bench.out);
  (void)bench.Take<DropGroupCommand>();
  CHECK(bench.Take<ReleaseRoundCommand>().round == 10);
  CHECK_FALSE(bench.core.has_ended());
  bench.core.Settled(&bench.out);
  CHECK(bench.out.empty());
  CHECK(bench.core.has_ended());
}

}  // namespace
}  // namespace capstan::train
