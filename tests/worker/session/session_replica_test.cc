// Mode allreduce in a session: rounds without weights, the group's addresses, and uploaded versions.
#include "common/wire/messages/assign.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::seconds;

class ReplicaBench : public SessionBench {
 public:
  ReplicaBench() : SessionBench(Mode::kAllReduce) {}

  View MakeGroupView(std::vector<std::string> addresses, std::uint64_t generation = 1) {
    View view = MakeView({0}, generation);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      view.group.push_back({SessionId{6 + i}, "w" + std::to_string(i), addresses[i]});  // the second one is this worker
    }
    return view;
  }
  Published MakePublished(ShardIndex shard, std::uint64_t version) const {
    Published published;
    published.generation = session->generation();
    published.incarnation = Incarnation{50 + shard};
    published.version = Version{version};
    published.learning_rate = 0.25F;
    published.keep = true;
    published.held = false;
    published.made_in = Generation{1};
    return published;
  }
  // Begins a round of `version`, in a group of two.
  Work BeginGroupWork(std::uint64_t version = 0) {
    Declare();
    FromCoordinator(MakeGroupView({"", ""}));
    Ready();
    NothingCovered(version);
    Forget();
    for (ShardIndex shard = 0; shard < kShards; ++shard) FromShard(shard, MakePublished(shard, version));
    const std::vector<Session::WorkReady> ready = Events<Session::WorkReady>();
    return ready.size() == 1 ? ready[0].work : Work{};
  }
  void SayGroup(GroupState state, const std::string& text, std::uint64_t generation = 1) {
    Outbox out;
    session->SayGroup(Generation{generation}, state, text, now, &out);
    said.clear();
    for (const Envelope& envelope : out.envelopes) said.push_back(envelope.message.header.Get<Beat>());
  }
  // Uploads the arrays of all blocks, each with its own number.
  void Give(const Work& work, const std::vector<BlockIndex>& blocks) {
    Outbox out;
    std::vector<Slice> arrays;
    for (float value : {1.0F, 2.0F}) arrays.push_back(Values(16, value));
    session->Give(work.round, std::move(arrays), blocks, now, &out);
    given.clear();
    for (const Envelope& envelope : out.envelopes) {
      if (const auto* assign = envelope.message.header.As<Assign>()) given.push_back(*assign);
    }
  }
  Assigned MakeAssigned(ShardIndex shard, std::uint64_t step, std::vector<BlockIndex> blocks) const {
    return {session->generation(), Incarnation{50 + shard}, shard, std::move(blocks), Step{step}};
  }

  std::vector<Beat> said;
  std::vector<Assign> given;
};

TEST_CASE("a round of a worker that updates begins with the word of every shard, and no weights",
          "[client][allreduce]") {
  ReplicaBench bench;
  bench.Declare();
  bench.FromCoordinator(bench.MakeGroupView({"", ""}));
  bench.Ready();
  bench.NothingCovered(0);
  for (ShardIndex shard : {0U, 1U}) {
    const std::vector<Pull> pulls = bench.TakeFor<Pull>(shard);
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].blocks.empty());
    CHECK(pulls[0].follows);
  }
  bench.FromShard(0, bench.MakePublished(0, 0));
  CHECK(bench.Events<Session::WorkReady>().empty());
  bench.Tick(seconds(3));
  bench.LoseAll();
  CHECK(bench.TakeFor<Pull>(0).empty());
  CHECK(bench.TakeFor<Pull>(1).size() == 1);  // it may be lost
  bench.FromShard(1, bench.MakePublished(1, 0));
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  const Work& work = ready[0].work;
  CHECK(work.terms.version == Version{0});
  CHECK(work.terms.learning_rate == 0.25F);
  CHECK(work.terms.keep);
  CHECK_FALSE(work.terms.held);
  CHECK(work.terms.made_in == Generation{1});
  CHECK(work.group.size() == 2);
  CHECK(work.rank == 1);
}

TEST_CASE("a round has its group also when the view has none any more", "[client][allreduce]") {
  ReplicaBench bench;
  const Work first = bench.BeginGroupWork();
  REQUIRE(first.group.size() == 2);
  View given_up = bench.MakeGroupView({});  // the group will be replaced as soon as the step is over
  ++given_up.sequence;
  bench.FromCoordinator(given_up);
  Outbox out;
  SlotReport report;
  report.slot = 0;
  bench.session->EndSlot(first.round, report, {}, bench.now, &out);
  bench.Ready();
  for (ShardIndex shard : {0U, 1U}) bench.FromShard(shard, bench.MakePublished(shard, 1));
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.group.size() == 2);
  CHECK(ready[0].work.rank == 1);
}

TEST_CASE("the group's addresses are told once, when all are there and this worker has offered its own",
          "[client][allreduce]") {
  ReplicaBench bench;
  (void)bench.BeginGroupWork();
  bench.FromCoordinator(bench.MakeGroupView({"a", "b"}));
  CHECK(bench.Events<Session::GroupKnown>().empty());
  bench.SayGroup(GroupState::kOffered, "b", 2);
  CHECK(bench.said.empty());  // belongs to another generation
  bench.SayGroup(GroupState::kOffered, "b");
  REQUIRE(bench.said.size() == 1);
  CHECK(bench.said[0].group == GroupState::kOffered);
  CHECK(bench.said[0].group_text == "b");
  bench.FromCoordinator(bench.MakeGroupView({"a", ""}));
  CHECK(bench.Events<Session::GroupKnown>().empty());
  bench.FromCoordinator(bench.MakeGroupView({"a", "b"}));
  const std::vector<Session::GroupKnown> known = bench.Events<Session::GroupKnown>();
  REQUIRE(known.size() == 1);
  CHECK(known[0].rank == 1);
  CHECK(known[0].members[0].address == "a");
  bench.FromCoordinator(bench.MakeGroupView({"a", "b"}));
  CHECK(bench.Events<Session::GroupKnown>().empty());
  bench.FromCoordinator(bench.MakeGroupView({"", ""}, 2));  // and again for the next one
  bench.Tick(seconds(1));
  const std::vector<Beat> beats = bench.Take<Beat>(SessionBench::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().group == GroupState::kNone);
}

TEST_CASE("blocks of a version are given to their shards, all arrays of each, until they are acknowledged",
          "[client][allreduce]") {
  ReplicaBench bench;
  const Work work = bench.BeginGroupWork();
  bench.Give(work, {0, 1, 2});
  REQUIRE(bench.given.size() == 6);
  CHECK(bench.given[0].block == 0);
  CHECK(bench.given[1].block == 0);
  CHECK(bench.given[1].array == 1);
  CHECK(bench.given[0].step == Step{0});
  bench.FromShard(0, bench.MakeAssigned(0, 0, {0}));
  bench.FromShard(1, bench.MakeAssigned(1, 7, {1}));  // belongs to another step
  bench.Tick(seconds(3));
  bench.LoseAll();
  CHECK(bench.TakeFor<Assign>(0).size() == 2);
  CHECK(bench.TakeFor<Assign>(1).size() == 2);
  bench.FromShard(0, bench.MakeAssigned(0, 0, {2}));
  bench.FromShard(1, bench.MakeAssigned(1, 0, {1}));
  bench.Tick(seconds(3));
  CHECK(bench.Sent<Assign>() == 0);
}

TEST_CASE("a version that is published is given to nobody any more", "[client][allreduce]") {
  ReplicaBench bench;
  const Work work = bench.BeginGroupWork();
  bench.Give(work, {0, 1});
  bench.EndSlot(work, 0);
  bench.Ready();
  bench.FromShard(0, bench.MakePublished(0, 1));
  bench.FromShard(1, bench.MakePublished(1, 1));
  CHECK(bench.Events<Session::WorkReady>().size() == 1);
  bench.Forget();
  bench.Tick(seconds(5));
  CHECK(bench.Sent<Assign>() == 0);
  bench.Give(work, {0});  // belongs to a finished round
  CHECK(bench.given.empty());
}

TEST_CASE("slots that are dealt anew within a generation are not computed in it", "[client][allreduce]") {
  ReplicaBench bench;
  const Work work = bench.BeginGroupWork();
  bench.EndSlot(work, 0);
  View view = bench.MakeGroupView({"", ""});
  view.slots = {1, 2};
  bench.FromCoordinator(view);
  CHECK(bench.Events<Session::WorkVoid>().empty());
  bench.Ready();
  for (ShardIndex shard : {0U, 1U}) bench.FromShard(shard, bench.MakePublished(shard, 1));
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{1});
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{0});
  view = bench.MakeGroupView({"", ""}, 2);
  view.slots = {1, 2};
  bench.FromCoordinator(view);
  CHECK(bench.Events<Session::WorkVoid>().size() == 1);
}

TEST_CASE("weights that nobody asked for are dropped", "[client][allreduce]") {
  ReplicaBench bench;
  bench.Declare();
  bench.FromCoordinator(bench.MakeGroupView({"", ""}));
  bench.Ready();
  bench.NothingCovered(0);
  bench.SendAllWeights(0);
  CHECK(bench.Events<Session::WeightsArrived>().empty());
  CHECK(bench.Events<Session::WorkReady>().empty());
}

}  // namespace
}  // namespace capstan::client
