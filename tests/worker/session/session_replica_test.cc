// Mode allreduce in a session: rounds without weights, the group's addresses, and uploaded versions.
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;

class ReplicaHarness : public SessionHarness {
 public:
  ReplicaHarness() : SessionHarness(Mode::kAllReduce) {}

  View MakeGroupView(std::vector<std::string> addresses, std::uint64_t generation = 1) {
    View view = MakeView({0}, generation);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      view.group.push_back({"w" + std::to_string(i), addresses[i]});
    }
    view.group_rank = 1;
    return view;
  }
  Published MakePublished(ShardIndex shard, std::uint64_t version) const {
    Published published;
    published.generation = session->generation();
    published.incarnation = Incarnation{50 + shard};
    published.version = Version{version};
    published.learning_rate = 0.25F;
    published.upload_next = true;
    published.on_shards = false;
    published.made_in = Generation{1};
    return published;
  }
  // Begins a round that computes with `version`, in a group of two workers.
  RoundWork BeginGroupWork(std::uint64_t version = 0) {
    Declare();
    FromCoordinator(MakeGroupView({"", ""}));
    Ready();
    NothingCovered(version);
    Forget();
    for (ShardIndex shard = 0; shard < kShards; ++shard) FromShard(shard, MakePublished(shard, version));
    const std::vector<Session::WorkReady> ready = Events<Session::WorkReady>();
    return ready.size() == 1 ? ready[0].work : RoundWork{};
  }
  void ReportGroup(GroupState state, const std::string& text, std::uint64_t generation = 1) {
    Outbox out;
    session->ReportGroup(Generation{generation}, state, text, now, &out);
    said.clear();
    for (const Envelope& envelope : out.envelopes) said.push_back(envelope.message.header.Get<Heartbeat>());
  }
  // Uploads these blocks of a version whose weights are all 1 and whose optimizer state is all 2.
  void Upload(const RoundWork& work, const std::vector<BlockIndex>& blocks) {
    Outbox out;
    std::vector<Slice> arrays;
    for (float value : {1.0F, 2.0F}) arrays.push_back(Values(16, value));
    session->UploadVersion(work.round, std::move(arrays), blocks, now, &out);
    uploaded.clear();
    for (const Envelope& envelope : out.envelopes) {
      if (const auto* upload = envelope.message.header.As<UploadBlock>()) uploaded.push_back(*upload);
    }
  }
  UploadAck MakeUploadAck(ShardIndex shard, std::uint64_t step, std::vector<BlockIndex> blocks) const {
    return {session->generation(), Incarnation{50 + shard}, shard, std::move(blocks), Step{step}};
  }

  std::vector<Heartbeat> said;
  std::vector<UploadBlock> uploaded;
};

TEST_CASE("a round of a worker that updates begins with the word of every shard, and no weights",
          "[client][allreduce]") {
  ReplicaHarness harness;
  harness.Declare();
  harness.FromCoordinator(harness.MakeGroupView({"", ""}));
  harness.Ready();
  harness.NothingCovered(0);
  for (ShardIndex shard : {0U, 1U}) {
    const std::vector<Pull> pulls = harness.TakeFor<Pull>(shard);
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].blocks.empty());
    CHECK(pulls[0].follows);
  }
  harness.FromShard(0, harness.MakePublished(0, 0));
  CHECK(harness.Events<Session::WorkReady>().empty());
  harness.Tick(seconds(3));
  harness.LoseAll();
  CHECK(harness.TakeFor<Pull>(0).empty());
  CHECK(harness.TakeFor<Pull>(1).size() == 1);  // the pull may be lost
  harness.FromShard(1, harness.MakePublished(1, 0));
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  const RoundWork& work = ready[0].work;
  CHECK(work.terms.version == Version{0});
  CHECK(work.terms.learning_rate == 0.25F);
  CHECK(work.terms.upload_next);
  CHECK_FALSE(work.terms.on_shards);
  CHECK(work.terms.made_in == Generation{1});
  CHECK(work.group.size() == 2);
  CHECK(work.rank == 1);
}

TEST_CASE("a round has its group also when the view has none any more", "[client][allreduce]") {
  ReplicaHarness harness;
  const RoundWork first = harness.BeginGroupWork();
  REQUIRE(first.group.size() == 2);
  View given_up = harness.MakeGroupView({});  // the group will be replaced as soon as the step is over
  ++given_up.sequence;
  harness.FromCoordinator(given_up);
  Outbox out;
  SlotReport report;
  report.slot = 0;
  harness.session->EndSlot(first.round, report, {}, harness.now, &out);
  harness.Ready();
  for (ShardIndex shard : {0U, 1U}) harness.FromShard(shard, harness.MakePublished(shard, 1));
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.group.size() == 2);
  CHECK(ready[0].work.rank == 1);
}

TEST_CASE("the group's addresses are told once, when all are there and this worker has offered its own",
          "[client][allreduce]") {
  ReplicaHarness harness;
  (void)harness.BeginGroupWork();
  harness.FromCoordinator(harness.MakeGroupView({"a", "b"}));
  CHECK(harness.Events<Session::GroupKnown>().empty());
  harness.ReportGroup(GroupState::kOffered, "b", 2);
  CHECK(harness.said.empty());  // belongs to another generation
  harness.ReportGroup(GroupState::kOffered, "b");
  REQUIRE(harness.said.size() == 1);
  CHECK(harness.said[0].group == GroupState::kOffered);
  CHECK(harness.said[0].group_text == "b");
  harness.FromCoordinator(harness.MakeGroupView({"a", ""}));
  CHECK(harness.Events<Session::GroupKnown>().empty());
  harness.FromCoordinator(harness.MakeGroupView({"a", "b"}));
  const std::vector<Session::GroupKnown> known = harness.Events<Session::GroupKnown>();
  REQUIRE(known.size() == 1);
  CHECK(known[0].rank == 1);
  CHECK(known[0].members[0].address == "a");
  harness.FromCoordinator(harness.MakeGroupView({"a", "b"}));
  CHECK(harness.Events<Session::GroupKnown>().empty());
  harness.FromCoordinator(harness.MakeGroupView({"", ""}, 2));  // and again for the next one
  harness.Tick(seconds(1));
  const std::vector<Heartbeat> beats = harness.Take<Heartbeat>(SessionHarness::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().group == GroupState::kNone);
}

TEST_CASE("a reason that is too long for a Heartbeat is cut, so that the worker keeps its lease",
          "[client][allreduce]") {
  ReplicaHarness harness;
  (void)harness.BeginGroupWork();
  harness.ReportGroup(GroupState::kBroken, std::string(kGroupTextBytesMax + 1, 'x'));
  REQUIRE(harness.said.size() == 1);
  CHECK(harness.said[0].group_text == std::string(kGroupTextBytesMax, 'x'));
}

TEST_CASE("blocks of a version are given to their shards, all arrays of each, until they are acknowledged",
          "[client][allreduce]") {
  ReplicaHarness harness;
  const RoundWork work = harness.BeginGroupWork();
  harness.Upload(work, {0, 1, 2});
  REQUIRE(harness.uploaded.size() == 6);
  CHECK(harness.uploaded[0].block == 0);
  CHECK(harness.uploaded[1].block == 0);
  CHECK(harness.uploaded[1].array == 1);
  CHECK(harness.uploaded[0].step == Step{0});
  harness.FromShard(0, harness.MakeUploadAck(0, 0, {0}));
  harness.FromShard(1, harness.MakeUploadAck(1, 7, {1}));  // belongs to another step
  harness.Tick(seconds(3));
  harness.LoseAll();
  CHECK(harness.TakeFor<UploadBlock>(0).size() == 2);
  CHECK(harness.TakeFor<UploadBlock>(1).size() == 2);
  harness.FromShard(0, harness.MakeUploadAck(0, 0, {2}));
  harness.FromShard(1, harness.MakeUploadAck(1, 0, {1}));
  harness.Tick(seconds(3));
  CHECK(harness.Sent<UploadBlock>() == 0);
}

TEST_CASE("a version that is published is given to nobody any more", "[client][allreduce]") {
  ReplicaHarness harness;
  const RoundWork work = harness.BeginGroupWork();
  harness.Upload(work, {0, 1});
  harness.EndSlot(work, 0);
  harness.Ready();
  harness.FromShard(0, harness.MakePublished(0, 1));
  harness.FromShard(1, harness.MakePublished(1, 1));
  CHECK(harness.Events<Session::WorkReady>().size() == 1);
  harness.Forget();
  harness.Tick(seconds(5));
  CHECK(harness.Sent<UploadBlock>() == 0);
  harness.Upload(work, {0});  // belongs to a finished round
  CHECK(harness.uploaded.empty());
}

TEST_CASE("slots that are dealt again within a generation are not computed in it", "[client][allreduce]") {
  ReplicaHarness harness;
  const RoundWork work = harness.BeginGroupWork();
  harness.EndSlot(work, 0);
  View view = harness.MakeGroupView({"", ""});
  view.slots = {1, 2};
  harness.FromCoordinator(view);
  CHECK(harness.Events<Session::WorkVoid>().empty());
  harness.Ready();
  for (ShardIndex shard : {0U, 1U}) harness.FromShard(shard, harness.MakePublished(shard, 1));
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{1});
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{0});
  view = harness.MakeGroupView({"", ""}, 2);
  view.slots = {1, 2};
  harness.FromCoordinator(view);
  CHECK(harness.Events<Session::WorkVoid>().size() == 1);
}

TEST_CASE("weights that nobody asked for are dropped", "[client][allreduce]") {
  ReplicaHarness harness;
  harness.Declare();
  harness.FromCoordinator(harness.MakeGroupView({"", ""}));
  harness.Ready();
  harness.NothingCovered(0);
  harness.SendAllWeights(0);
  CHECK(harness.Events<Session::WeightsArrived>().empty());
  CHECK(harness.Events<Session::WorkReady>().empty());
}

}  // namespace
}  // namespace capstan::session
