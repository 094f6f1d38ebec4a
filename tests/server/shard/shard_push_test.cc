// Rules by which a shard stages pushes, one push at a time: docs/explanation/design/protocol.md 6.
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

constexpr Node kLeaf2{2, 3};

TEST_CASE("a shard without a generation asks workers to come later", "[server][shard]") {
  ShardHarness harness;
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Refused(Code::kBusy));
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Refused(Code::kStale));
}

TEST_CASE("a push of an older generation is stale, of a newer one too early, and neither is staged",
          "[server][shard]") {
  ShardHarness harness;
  harness.FromCoordinator(harness.MakeReset(5));
  harness.Forget();
  const Slice payload = harness.Values(4, 1.0F);
  Push push = harness.MakePush(0, 0, kLeaf0, 1, payload);
  push.generation = Generation{4};
  harness.FromWorker(push, payload);
  CHECK(harness.Refused(Code::kStale));
  push.generation = Generation{6};
  harness.FromWorker(push, payload);
  CHECK(harness.Refused(Code::kBusy));
  CHECK(harness.metrics->pushes_stale.value() == 2);
  CHECK(harness.shard->engine().staged_bytes() == 0);
}

TEST_CASE("a lent payload is taken if it completes its block", "[server][shard]") {
  ShardHarness harness({.slots = 2, .tensors = {4}});
  harness.Start();
  CHECK_FALSE(harness.Lend(0, 0, kLeaf0, 1, 1.0F));
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK_FALSE(harness.Lend(0, 0, kLeaf0, 1, 1.0F));  // it is here already
  CHECK_FALSE(harness.Lend(1, 0, kLeaf1, 1, 3.0F));  // of the next step
  harness.Forget();
  REQUIRE(harness.Lend(0, 0, kLeaf1, 1, 3.0F, true));
  CHECK(harness.Refused(Code::kCorrupt));
  CHECK(harness.metrics->pushes_corrupt.value() == 1);
  CHECK_FALSE(harness.shard->engine().IsPrepared(0));
  CHECK(harness.shard->engine().Holds(0, Step{0}, kLeaf0));
  CHECK_FALSE(harness.shard->engine().Holds(0, Step{0}, kLeaf1));
  REQUIRE(harness.Lend(0, 0, kLeaf1, 1, 3.0F));
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf1}});
  CHECK(harness.shard->engine().IsPrepared(0));
  CHECK(harness.shard->engine().staged_bytes() == 0);
  CHECK_FALSE(harness.Lend(0, 0, kLeaf1, 1, 3.0F));
  for (const SlotIndex slot : {0U, 1U}) harness.FromWorker(harness.MakeEnd(0, slot));
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).size() == 1);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.Commits(0, 1);
  CHECK(harness.WeightOf(0) == -1.0F);  // half of the mean
}

TEST_CASE("a lent payload that would be added to another node is copied first", "[server][shard]") {
  ShardHarness harness({.slots = 3, .tensors = {4}});
  harness.Start();
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  harness.Stage(0, 0, kLeaf2, 1, 1.0F);
  CHECK_FALSE(harness.Lend(0, 0, kLeaf1, 1, 1.0F));
  CHECK_FALSE(TakesLent(*harness.shard, harness.MakePull(0, {0})));
}

TEST_CASE("a message for another incarnation is stale", "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t incarnation : {std::uint64_t{6}, std::uint64_t{8}}) {
    const Slice payload = harness.Values(4, 1.0F);
    Push push = harness.MakePush(0, 0, kLeaf0, 1, payload);
    push.incarnation = Incarnation{incarnation};
    harness.FromWorker(push, payload);
    CHECK(harness.Refused(Code::kStale));
    EndSlot end = harness.MakeEnd(0, 0);
    end.incarnation = Incarnation{incarnation};
    harness.FromWorker(end);
    CHECK(harness.Refused(Code::kStale));
    Pull pull = harness.MakePull(0, {0});
    pull.incarnation = Incarnation{incarnation};
    harness.FromWorker(pull);
    CHECK(harness.Refused(Code::kStale));
    harness.FromWorker(CoverageQuery{Generation{1}, Incarnation{incarnation}, SessionId{1}, Step{0}});
    CHECK(harness.Refused(Code::kStale));
  }
  CHECK(harness.shard->engine().staged_bytes() == 0);
}

TEST_CASE("a push is acknowledged by what is held", "[server][shard]") {
  ShardHarness harness;
  harness.Start().Stage(0, 1, kLeaf2, 5, 1.0F);
  const std::vector<Staged> acks = harness.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].generation == Generation{1});
  CHECK(acks[0].incarnation == Incarnation{7});
  CHECK(acks[0].step == Step{0});
  CHECK(acks[0].nodes == std::vector<Staged::Entry>{{1, kLeaf2}});
  CHECK(!acks[0].full);
  CHECK(!acks[0].passed);
  CHECK(harness.Coverage(0).nodes == std::vector<Staged::Entry>{{1, kLeaf2}});
}

TEST_CASE("a push of a step that is over is acknowledged and changes nothing; one of a later step is too early",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 3.0F);
  harness.Commits(0);
  REQUIRE(harness.shard->version() == Version{1});
  const std::uint64_t digest = harness.shard->store().Digest();
  harness.Forget();
  harness.Stage(0, 0, kLeaf0, 1, 99.0F);
  const std::vector<Staged> acks = harness.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].passed);
  CHECK(harness.metrics->pushes_duplicate.value() == 1);
  harness.Stage(2, 0, kLeaf0, 1, 99.0F);
  CHECK(harness.Refused(Code::kBusy));
  CHECK(harness.Coverage(1).nodes.empty());
  CHECK(harness.shard->store().Digest() == digest);
}

TEST_CASE("a payload that does not match its hash is corrupt, counted, and may be sent again", "[server][shard]") {
  ShardHarness harness;
  harness.Start();
  Slice payload = harness.Values(4, 1.0F);
  const Push push = harness.MakePush(0, 0, kLeaf0, 1, payload);
  payload.owner.As<float>()[3] = 2.0F;
  harness.FromWorker(push, payload);
  CHECK(harness.Refused(Code::kCorrupt));
  CHECK(harness.metrics->pushes_corrupt.value() == 1);
  CHECK(harness.Coverage(0).nodes.empty());
  payload.owner.As<float>()[3] = 1.0F;
  harness.FromWorker(push, payload);
  CHECK(harness.Coverage(0).nodes.size() == 1);
}

TEST_CASE("a push that cannot be is invalid and changes nothing", "[server][shard]") {
  ShardHarness harness({.shard = 0, .shard_count = 2, .slots = 4});  // blocks 0 and 2; block 1 is the other shard's
  harness.Start();
  struct Bad {
    const char* what;
    BlockIndex block;
    Node node;
    std::uint64_t samples;
    std::size_t values;
  };
  const Bad bad[] = {
      {"a block of another shard", 1, {0, 1}, 1, 4},
      {"an unknown block", 3, {0, 1}, 1, 4},
      {"an unknown block", UINT32_MAX, {0, 1}, 1, 4},
      {"no node of the tree", 0, {1, 3}, 1, 4},
      {"no node of the tree", 0, {0, 3}, 1, 4},
      {"an empty node", 0, {1, 1}, 1, 4},
      {"a reversed node", 0, {2, 1}, 1, 4},
      {"a slot that does not exist", 0, {4, 5}, 1, 4},
      {"slots that do not exist", 0, {0, UINT32_MAX}, 1, 4},
      {"too short", 0, {0, 1}, 1, 3},
      {"too long", 0, {0, 1}, 1, 5},
      {"too long for the last block", 2, {0, 1}, 1, 4},
      {"no payload", 0, {0, 1}, 1, 0},
      {"a payload without samples", 0, {0, 1}, 0, 4},
      {"more samples than fp32 counts exactly", 0, {0, 1}, kSamplesPerPushMax + 1, 4},
      {"more samples than fp32 counts exactly", 0, {0, 2}, 2 * kSamplesPerPushMax + 1, 4},
      {"more samples than fp32 counts exactly", 0, {0, 1}, UINT64_MAX, 4},
  };
  std::uint64_t count = 0;
  for (const Bad& one : bad) {
    INFO(one.what);
    const Slice payload = harness.Values(one.values, 1.0F);
    Push push = harness.MakePush(0, one.block, one.node, one.samples, payload);
    push.payload_hash = Hash64(payload.bytes());
    harness.FromWorker(push, payload);
    CHECK(harness.Refused(Code::kInvalid));
    CHECK(harness.metrics->pushes_invalid.value() == ++count);
  }
  CHECK(harness.Coverage(0).nodes.empty());
  CHECK(harness.shard->engine().staged_bytes() == 0);
  harness.Stage(0, 0, {0, 1}, kSamplesPerPushMax, 1.0F);
  CHECK(harness.Coverage(0).nodes.size() == 1);
}

TEST_CASE("a node inside a held one is acknowledged and ignored; a node takes the place of those inside it",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start().Stage(0, 0, {0, 2}, 3, 12.0F);  // the sum of two slots' values
  harness.Forget();
  harness.Stage(0, 0, kLeaf0, 1, 99.0F);
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(harness.metrics->pushes_duplicate.value() == 1);
  harness.Stage(0, 1, kLeaf1, 1, 99.0F);
  harness.Stage(0, 1, {0, 2}, 3, 12.0F);
  CHECK(harness.Coverage(0).nodes == std::vector<Staged::Entry>{{0, {0, 2}}, {1, {0, 2}}});
  for (BlockIndex block : {0U, 1U}) harness.Stage(0, block, kLeaf2, 1, 4.0F);
  harness.Stage(0, 2, {0, 3}, 4, 16.0F);
  for (SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(0, slot));
  harness.Commits(0);
  for (std::size_t index : {0U, 1U, 2U}) CHECK(harness.WeightOf(index) == -4.0F);  // (12 + 1 * 4) / 4 samples
}

TEST_CASE("another sample count for a node already seen is reported with both sessions, also for the sum of two",
          "[server][shard]") {
  ShardHarness harness;
  harness.Start().Tell({harness.MakeSession(1, "a"), harness.MakeSession(2, "b")});
  const auto disagreements = [&] { return harness.Take<Disagreement>(ShardHarness::kCoordinator); };
  harness.Stage(0, 0, kLeaf0, 2, 1.0F);
  harness.Forget();
  harness.session = SessionId{2};
  harness.Stage(0, 0, kLeaf0, 3, 1.0F);
  std::vector<Disagreement> first = disagreements();
  REQUIRE(first.size() == 1);
  CHECK(first[0].first == SessionId{1});
  CHECK(first[0].second == SessionId{2});
  CHECK_THAT(first[0].what, Contains("step 0: slots [0, 1) came with 2 samples before and with 3 now"));
  CHECK_THAT(harness.notices().at(0).text, Contains("\"b\" disagrees with \"a\""));
  CHECK(harness.Take<Staged>().at(0).nodes.size() == 1);  // the slot is staged: its sender need not send it again
  CHECK(harness.Take<Error>().empty());
  harness.Stage(0, 0, kLeaf1, 2, 1.0F);
  harness.Stage(0, 0, kLeaf1, 1, 1.0F);  // now part of [0, 2)
  CHECK(disagreements().size() == 1);
  harness.Stage(0, 0, {0, 2}, 5, 1.0F);
  CHECK(disagreements().at(0).first == SessionId{});  // two sessions have sent its parts
  harness.Stage(0, 0, {0, 2}, 4, 1.0F);
  CHECK(disagreements().empty());
  CHECK(harness.Take<Error>().empty());
}

TEST_CASE("two results for one node are counted and told, and the first is kept", "[server][shard]") {
  ShardHarness harness;
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  harness.Forget();
  harness.Stage(0, 0, kLeaf0, 1, 2.0F, ShardHarness::kOther);
  CHECK(harness.shard->engine().hash_mismatches() == 1);
  CHECK(harness.metrics->hash_mismatches.value() == 1);
  CHECK(harness.notices().size() == 1);
  CHECK(harness.Take<Staged>(ShardHarness::kOther).at(0).nodes.size() == 1);  // the node is not requested again
  harness.Stage(0, 0, kLeaf0, 1, 1.0F, ShardHarness::kOther);
  CHECK(harness.shard->engine().hash_mismatches() == 1);
  harness.CompleteStep(0, 1.0F);
  harness.Commits(0);
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("nothing that arrives after a block is complete changes its sum or its count", "[server][shard]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 8.0F);
  REQUIRE(harness.shard->engine().prepared());
  harness.Forget();
  harness.Stage(0, 0, {0, 3}, 0, 0.0F);  // all slots at once, and another number of samples
  CHECK(harness.Take<Disagreement>(ShardHarness::kCoordinator).size() == 1);
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, {0, 3}}});
  harness.Stage(0, 0, {0, 3}, 3, 24.0F);  // the same again, as a sum
  CHECK(harness.Take<Staged>().at(0).nodes == std::vector<Staged::Entry>{{0, {0, 3}}});
  CHECK(harness.shard->engine().staged_bytes() == 0);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  const std::vector<Prepared> prepared = harness.Take<Prepared>(ShardHarness::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].report.block_samples == std::vector<std::uint64_t>{3, 3, 3});
  harness.Commits(0, 1);
  for (std::size_t index : {0U, 1U, 2U}) CHECK(harness.WeightOf(index) == -4.0F);
}

TEST_CASE("blocks beyond the window are not staged, and whoever pushed is told when it moves", "[server][shard]") {
  ShardHarness harness({.slots = 1, .window_blocks = 1});
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);  // the last block in push order
  std::vector<Staged> acks = harness.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].credit == 1);
  CHECK(acks[0].nodes.empty());
  CHECK(harness.metrics->pushes_busy.value() == 1);
  CHECK(harness.shard->engine().staged_bytes() == 0);
  harness.Stage(0, 2, kLeaf0, 1, 1.0F, ShardHarness::kOther);
  acks = harness.Take<Staged>();
  REQUIRE(acks.size() == 1);  // the first worker is notified, though it has sent nothing
  CHECK(acks[0].credit == 2);
  CHECK(harness.Take<Staged>(ShardHarness::kOther).at(0).credit == 2);
  harness.Stage(0, 1, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Staged>().at(0).credit == 3);
}

TEST_CASE("coverage names nodes, ended slots, and whether the step has passed", "[server][shard]") {
  ShardHarness harness;
  harness.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(0, 2));
  Staged coverage = harness.Coverage(0);
  CHECK(coverage.full);
  CHECK(!coverage.passed);
  CHECK(coverage.ended == std::vector<SlotIndex>{2});
  harness.FromWorker(CoverageQuery{Generation{1}, Incarnation{7}, SessionId{1}, Step{1}});
  CHECK(harness.Refused(Code::kBusy));
  harness.CompleteStep(0, 1.0F);
  coverage = harness.Coverage(0);     // prepared: everything is still there
  CHECK(coverage.nodes.size() == 6);  // per block [0, 2) and [2, 3): the last addition is the update's
  CHECK(coverage.ended.size() == 3);
  harness.Commits(0);
  coverage = harness.Coverage(0);
  CHECK(coverage.full);
  CHECK(coverage.passed);
}

TEST_CASE("a slot ends on its home shard only", "[server][shard]") {
  ShardHarness harness({.shard = 1, .shard_count = 2, .slots = 3});
  harness.Start();
  for (SlotIndex slot : {0U, 2U, 3U, 5U, UINT32_MAX}) {
    harness.FromWorker(harness.MakeEnd(0, slot));
    INFO("slot " << slot);
    CHECK(harness.Refused(Code::kInvalid));
  }
  harness.FromWorker(harness.MakeEnd(2, 1));
  CHECK(harness.Refused(Code::kBusy));
  harness.FromWorker(harness.MakeEnd(0, 1, 5));
  CHECK(harness.Take<Staged>().at(0).ended == std::vector<SlotIndex>{1});
  harness.FromWorker(harness.MakeEnd(0, 1, 9));  // again: acknowledged, the first report stays
  CHECK(harness.Take<Staged>().at(0).ended == std::vector<SlotIndex>{1});
  for (SlotIndex slot : {0U, 1U, 2U}) harness.Stage(0, 1, {slot, slot + 1}, 1, 1.0F);
  const std::vector<Prepared> prepared = harness.Take<Prepared>(ShardHarness::kCoordinator);
  REQUIRE(prepared.size() == 1);
  REQUIRE(prepared[0].report.slots.size() == 1);
  CHECK(prepared[0].report.slots[0].samples == 5);
}

TEST_CASE("a slot of the next step may end before this shard has heard of the Commit", "[server][shard]") {
  ShardHarness harness({.slots = 1, .tensors = {4}});
  harness.Start().CompleteStep(0, 1.0F);
  harness.Forget();
  harness.FromWorker(harness.MakeEnd(1, 0, 5));
  CHECK(harness.Take<Staged>().at(0).ended == std::vector<SlotIndex>{0});
  harness.Commits(0);
  CHECK(harness.Coverage(1).ended == std::vector<SlotIndex>{0});
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).at(0).report.slots.at(0).samples == 5);
  harness.FromWorker(harness.MakeEnd(2, 0));
  harness.FromCoordinator(harness.MakeReset(2));  // another timeline: forgotten
  CHECK(harness.Take<Prepared>(ShardHarness::kCoordinator).empty());
  harness.Forget();
  harness.FromWorker(CoverageQuery{Generation{2}, Incarnation{7}, SessionId{1}, Step{0}});
  CHECK(harness.Take<Staged>().at(0).ended.empty());
}

}  // namespace
}  // namespace capstan::server
