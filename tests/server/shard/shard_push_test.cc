// Rules by which a shard stages pushes, one push at a time: docs/design/protocol.md 6.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/staged.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

constexpr Node kLeaf2{2, 3};

TEST_CASE("a shard without a generation asks workers to come later", "[server][shard]") {
  ShardBench bench;
  bench.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Refused(Code::kBusy));
  bench.FromWorker(bench.MakePull(0, {0}));
  CHECK(bench.Refused(Code::kBusy));
}

TEST_CASE("a push of an older generation is stale, of a newer one too early, and neither is staged",
          "[server][shard]") {
  ShardBench bench;
  bench.FromCoordinator(bench.MakeReset(5));
  bench.Forget();
  const Slice payload = bench.Values(4, 1.0F);
  Push push = bench.MakePush(0, 0, kLeaf0, 1, payload);
  push.generation = Generation{4};
  bench.FromWorker(push, payload);
  CHECK(bench.Refused(Code::kStale));
  push.generation = Generation{6};
  bench.FromWorker(push, payload);
  CHECK(bench.Refused(Code::kBusy));
  CHECK(bench.metrics->pushes_stale.value() == 2);
  CHECK(bench.shard->engine().staged_bytes() == 0);
}

TEST_CASE("a message for another incarnation is stale", "[server][shard]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t incarnation : {std::uint64_t{6}, std::uint64_t{8}}) {
    const Slice payload = bench.Values(4, 1.0F);
    Push push = bench.MakePush(0, 0, kLeaf0, 1, payload);
    push.incarnation = Incarnation{incarnation};
    bench.FromWorker(push, payload);
    CHECK(bench.Refused(Code::kStale));
    EndSlot end = bench.MakeEnd(0, 0);
    end.incarnation = Incarnation{incarnation};
    bench.FromWorker(end);
    CHECK(bench.Refused(Code::kStale));
    Pull pull = bench.MakePull(0, {0});
    pull.incarnation = Incarnation{incarnation};
    bench.FromWorker(pull);
    CHECK(bench.Refused(Code::kStale));
    bench.FromWorker(CoverageQuery{Generation{1}, Incarnation{incarnation}, SessionId{1}, Step{0}});
    CHECK(bench.Refused(Code::kStale));
  }
  CHECK(bench.shard->engine().staged_bytes() == 0);
}

TEST_CASE("a push is acknowledged by what is held", "[server][shard]") {
  ShardBench bench;
  bench.Start().Stage(0, 1, kLeaf2, 5, 1.0F);
  const std::vector<Staged> acks = bench.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].generation == Generation{1});
  CHECK(acks[0].incarnation == Incarnation{7});
  CHECK(acks[0].step == Step{0});
  CHECK(acks[0].held == std::vector<Staged::Entry>{{1, kLeaf2}});
  CHECK(!acks[0].full);
  CHECK(!acks[0].passed);
  CHECK(bench.Coverage(0).held == std::vector<Staged::Entry>{{1, kLeaf2}});
}

TEST_CASE("a push of a step that is over is acknowledged and changes nothing; one of a later step is too early",
          "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 3.0F);
  bench.Commits(0);
  REQUIRE(bench.shard->version() == Version{1});
  const std::uint64_t digest = bench.shard->store().Digest();
  bench.Forget();
  bench.Stage(0, 0, kLeaf0, 1, 99.0F);
  const std::vector<Staged> acks = bench.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].passed);
  CHECK(bench.metrics->pushes_duplicate.value() == 1);
  bench.Stage(2, 0, kLeaf0, 1, 99.0F);
  CHECK(bench.Refused(Code::kBusy));
  CHECK(bench.Coverage(1).held.empty());
  CHECK(bench.shard->store().Digest() == digest);
}

TEST_CASE("a payload that does not match its hash is corrupt, counted, and may be sent again", "[server][shard]") {
  ShardBench bench;
  bench.Start();
  Slice payload = bench.Values(4, 1.0F);
  const Push push = bench.MakePush(0, 0, kLeaf0, 1, payload);
  payload.owner.As<float>()[3] = 2.0F;
  bench.FromWorker(push, payload);
  CHECK(bench.Refused(Code::kCorrupt));
  CHECK(bench.metrics->pushes_corrupt.value() == 1);
  CHECK(bench.Coverage(0).held.empty());
  payload.owner.As<float>()[3] = 1.0F;
  bench.FromWorker(push, payload);
  CHECK(bench.Coverage(0).held.size() == 1);
}

TEST_CASE("a push that cannot be is invalid and changes nothing", "[server][shard]") {
  ShardBench bench({.shard = 0, .shard_count = 2, .slots = 4});  // blocks 0 and 2; block 1 is the other shard's
  bench.Start();
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
    const Slice payload = bench.Values(one.values, 1.0F);
    Push push = bench.MakePush(0, one.block, one.node, one.samples, payload);
    push.payload_hash = Hash64(payload.bytes());
    bench.FromWorker(push, payload);
    CHECK(bench.Refused(Code::kInvalid));
    CHECK(bench.metrics->pushes_invalid.value() == ++count);
  }
  CHECK(bench.Coverage(0).held.empty());
  CHECK(bench.shard->engine().staged_bytes() == 0);
  bench.Stage(0, 0, {0, 1}, kSamplesPerPushMax, 1.0F);
  CHECK(bench.Coverage(0).held.size() == 1);
}

TEST_CASE("a node inside a held one is acknowledged and ignored; a node takes the place of those inside it",
          "[server][shard]") {
  ShardBench bench;
  bench.Start().Stage(0, 0, {0, 2}, 3, 12.0F);  // the sum of two slots' values
  bench.Forget();
  bench.Stage(0, 0, kLeaf0, 1, 99.0F);
  CHECK(bench.Take<Staged>().at(0).held == std::vector<Staged::Entry>{{0, kLeaf0}});
  CHECK(bench.metrics->pushes_duplicate.value() == 1);
  bench.Stage(0, 1, kLeaf1, 1, 99.0F);
  bench.Stage(0, 1, {0, 2}, 3, 12.0F);
  CHECK(bench.Coverage(0).held == std::vector<Staged::Entry>{{0, {0, 2}}, {1, {0, 2}}});
  for (BlockIndex block : {0U, 1U}) bench.Stage(0, block, kLeaf2, 1, 4.0F);
  bench.Stage(0, 2, {0, 3}, 4, 16.0F);
  for (SlotIndex slot : {0U, 1U, 2U}) bench.FromWorker(bench.MakeEnd(0, slot));
  bench.Commits(0);
  for (std::size_t local : {0U, 1U, 2U}) CHECK(bench.WeightOf(local) == -4.0F);  // (12 + 1 * 4) / 4 samples
}

TEST_CASE("another sample count for a node already seen is invalid, also for the sum of two", "[server][shard]") {
  ShardBench bench;
  bench.Start().Stage(0, 0, kLeaf0, 2, 1.0F);
  bench.Forget();
  bench.Stage(0, 0, kLeaf0, 3, 1.0F, ShardBench::kOther);
  CHECK(bench.Refused(Code::kInvalid, ShardBench::kOther));
  bench.Stage(0, 0, kLeaf1, 2, 1.0F);
  bench.Stage(0, 0, kLeaf1, 1, 1.0F);  // now part of [0, 2)
  bench.Take<Staged>();
  CHECK(bench.Refused(Code::kInvalid));
  bench.Stage(0, 0, {0, 2}, 5, 1.0F);
  CHECK(bench.Refused(Code::kInvalid));
  bench.Stage(0, 0, {0, 2}, 4, 1.0F);
  CHECK(bench.Take<Staged>().size() == 1);
}

TEST_CASE("two results for one node are counted and told, and the first is kept", "[server][shard]") {
  ShardBench bench;
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  bench.Forget();
  bench.Stage(0, 0, kLeaf0, 1, 2.0F, ShardBench::kOther);
  CHECK(bench.shard->engine().hash_mismatches() == 1);
  CHECK(bench.metrics->hash_mismatches.value() == 1);
  CHECK(bench.notices().size() == 1);
  CHECK(bench.Take<Staged>(ShardBench::kOther).at(0).held.size() == 1);  // it is not requested again
  bench.Stage(0, 0, kLeaf0, 1, 1.0F, ShardBench::kOther);
  CHECK(bench.shard->engine().hash_mismatches() == 1);
  bench.CompleteStep(0, 1.0F);
  bench.Commits(0);
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("nothing that arrives after a block is complete changes its sum or its count", "[server][shard]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 8.0F);
  REQUIRE(bench.shard->engine().prepared());
  bench.Forget();
  bench.Stage(0, 0, {0, 3}, 0, 0.0F);  // all slots at once, and another number of samples
  CHECK(bench.Refused(Code::kInvalid));
  bench.Stage(0, 0, {0, 3}, 3, 24.0F);  // the same again, as a sum
  CHECK(bench.Take<Staged>().at(0).held == std::vector<Staged::Entry>{{0, {0, 3}}});
  CHECK(bench.shard->engine().staged_bytes() == 0);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  const std::vector<Prepared> prepared = bench.Take<Prepared>(ShardBench::kCoordinator);
  REQUIRE(prepared.size() == 1);
  CHECK(prepared[0].report.block_samples == std::vector<std::uint64_t>{3, 3, 3});
  bench.Commits(0, 1);
  for (std::size_t local : {0U, 1U, 2U}) CHECK(bench.WeightOf(local) == -4.0F);
}

TEST_CASE("blocks beyond the window are not staged, and whoever pushed is told when it moves", "[server][shard]") {
  ShardBench bench({.slots = 1, .window_blocks = 1});
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);  // the last block in push order
  std::vector<Staged> acks = bench.Take<Staged>();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].credit == 1);
  CHECK(acks[0].held.empty());
  CHECK(bench.metrics->pushes_busy.value() == 1);
  CHECK(bench.shard->engine().staged_bytes() == 0);
  bench.Stage(0, 2, kLeaf0, 1, 1.0F, ShardBench::kOther);
  acks = bench.Take<Staged>();
  REQUIRE(acks.size() == 1);  // the first worker did nothing for it
  CHECK(acks[0].credit == 2);
  CHECK(bench.Take<Staged>(ShardBench::kOther).at(0).credit == 2);
  bench.Stage(0, 1, kLeaf0, 1, 1.0F);
  CHECK(bench.Take<Staged>().at(0).credit == 3);
}

TEST_CASE("coverage names nodes, ended slots, and whether the step has passed", "[server][shard]") {
  ShardBench bench;
  bench.Start().Stage(0, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(0, 2));
  Staged coverage = bench.Coverage(0);
  CHECK(coverage.full);
  CHECK(!coverage.passed);
  CHECK(coverage.ended == std::vector<SlotIndex>{2});
  bench.FromWorker(CoverageQuery{Generation{1}, Incarnation{7}, SessionId{1}, Step{1}});
  CHECK(bench.Refused(Code::kBusy));
  bench.CompleteStep(0, 1.0F);
  coverage = bench.Coverage(0);      // prepared: everything is still there
  CHECK(coverage.held.size() == 6);  // per block [0, 2) and [2, 3): the last addition is the update's
  CHECK(coverage.ended.size() == 3);
  bench.Commits(0);
  coverage = bench.Coverage(0);
  CHECK(coverage.full);
  CHECK(coverage.passed);
}

TEST_CASE("a slot ends on its home shard only", "[server][shard]") {
  ShardBench bench({.shard = 1, .shard_count = 2, .slots = 3});
  bench.Start();
  for (SlotIndex slot : {0U, 2U, 3U, 5U, UINT32_MAX}) {
    bench.FromWorker(bench.MakeEnd(0, slot));
    INFO("slot " << slot);
    CHECK(bench.Refused(Code::kInvalid));
  }
  bench.FromWorker(bench.MakeEnd(2, 1));
  CHECK(bench.Refused(Code::kBusy));
  bench.FromWorker(bench.MakeEnd(0, 1, 5));
  CHECK(bench.Take<Staged>().at(0).ended == std::vector<SlotIndex>{1});
  bench.FromWorker(bench.MakeEnd(0, 1, 9));  // again: acknowledged, the first report stays
  CHECK(bench.Take<Staged>().at(0).ended == std::vector<SlotIndex>{1});
  for (SlotIndex slot : {0U, 1U, 2U}) bench.Stage(0, 1, {slot, slot + 1}, 1, 1.0F);
  const std::vector<Prepared> prepared = bench.Take<Prepared>(ShardBench::kCoordinator);
  REQUIRE(prepared.size() == 1);
  REQUIRE(prepared[0].report.slots.size() == 1);
  CHECK(prepared[0].report.slots[0].samples == 5);
}

TEST_CASE("a slot of the next step may end before this shard has heard of the Commit", "[server][shard]") {
  ShardBench bench({.slots = 1, .tensors = {4}});
  bench.Start().CompleteStep(0, 1.0F);
  bench.Forget();
  bench.FromWorker(bench.MakeEnd(1, 0, 5));
  CHECK(bench.Take<Staged>().at(0).ended == std::vector<SlotIndex>{0});
  bench.Commits(0);
  CHECK(bench.Coverage(1).ended == std::vector<SlotIndex>{0});
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  CHECK(bench.Take<Prepared>(ShardBench::kCoordinator).at(0).report.slots.at(0).samples == 5);
  bench.FromWorker(bench.MakeEnd(2, 0));
  bench.FromCoordinator(bench.MakeReset(2));  // another timeline: forgotten
  CHECK(bench.Take<Prepared>(ShardBench::kCoordinator).empty());
  bench.Forget();
  bench.FromWorker(CoverageQuery{Generation{2}, Incarnation{7}, SessionId{1}, Step{0}});
  CHECK(bench.Take<Staged>().at(0).ended.empty());
}

}  // namespace
}  // namespace capstan::server
