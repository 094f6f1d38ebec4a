// Speculative weights of a shard: what it sends before the verdict, to which workers, and when it sends them again.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

constexpr Node kSlots[] = {{0, 1}, {1, 2}, {2, 3}};

Pull Waiting(const ShardHarness& harness, std::uint64_t version, std::vector<BlockIndex> blocks,
             std::vector<BlockIndex> speculative) {
  Pull pull = harness.MakePull(version, std::move(blocks));
  pull.speculative = std::move(speculative);
  pull.follows = true;
  return pull;
}

void StageBlock(ShardHarness* harness, std::uint64_t step, BlockIndex block, float value) {
  for (const Node& slot : kSlots) harness->Stage(step, block, slot, 1, value);
}

float First(const Slice& payload) { return *reinterpret_cast<const float*>(payload.data); }

std::vector<BlockIndex> Speculative(ShardHarness* harness) {
  std::vector<BlockIndex> blocks;
  for (const Weights& weights : harness->Take<Weights>()) {
    CHECK(weights.speculative);
    blocks.push_back(weights.block);
  }
  return blocks;
}

using Blocks = std::vector<BlockIndex>;

TEST_CASE("a block goes to who waits for it as soon as it is prepared, two at a time, and once",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  CHECK(harness.Take<Weights>().empty());
  StageBlock(&harness, 0, 2, 1.0F);
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].speculative);
  CHECK(weights[0].block == 2);
  CHECK(weights[0].version == Version{1});
  CHECK(weights[0].attempt == 0);
  CHECK(weights[0].generation == Generation{1});
  CHECK(weights[0].incarnation == Incarnation{7});
  CHECK(weights[0].payload_hash == Hash64(harness.payloads[0].bytes()));
  CHECK(First(harness.payloads[0]) == -1.0F);
  StageBlock(&harness, 0, 1, 1.0F);
  CHECK(Speculative(&harness) == Blocks{1});
  StageBlock(&harness, 0, 0, 1.0F);
  CHECK(Speculative(&harness).empty());
  harness.FromWorker(Waiting(harness, 1, {0}, {0, 1}));  // block 2 has arrived
  CHECK(Speculative(&harness) == Blocks{0});
  harness.FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));  // a late pull
  CHECK(Speculative(&harness).empty());
  for (SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(0, slot));
  CHECK(harness.Take<Published>().empty());
  CHECK(harness.WeightOf(0) == 0.0F);  // published: version 0
  Commit commit = harness.MakeCommit(0);
  commit.next.program_state = "decided";
  harness.FromCoordinator(commit);
  const std::vector<Published> published = harness.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].version == Version{1});
  CHECK(published[0].updates == 1);
  CHECK(published[0].program_state == "decided");
  CHECK(published[0].attempt == 0);
  CHECK(published[0].action == StepAction::kApply);
  CHECK(published[0].generation == Generation{1});
  CHECK(published[0].incarnation == Incarnation{7});
  CHECK(harness.Take<Weights>().empty());  // everything is there
}

TEST_CASE("what did not go out before the Commit follows Published", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0, 1}, {1, 2}));
  harness.CompleteStep(0, 1.0F);
  CHECK(Speculative(&harness) == Blocks{1, 2});
  harness.Commits(0);
  CHECK(harness.Take<Published>().size() == 1);
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].block == 0);
  CHECK(!weights[0].speculative);
}

TEST_CASE("nobody else gets speculative weights", "[server][speculative]") {
  ShardHarness harness;
  Pull reader = Waiting(harness.Start(), 1, {0}, {0, 1});
  reader.follows = false;
  harness.FromWorker(reader);
  harness.FromWorker(Waiting(harness, 2, {0}, {0, 1}), {}, ShardHarness::kOther);  // a version further
  harness.FromWorker(harness.MakePull(1, {2}), {}, PeerId{4});
  harness.CompleteStep(0, 1.0F);
  for (PeerId peer : {ShardHarness::kWorker, ShardHarness::kOther, PeerId{4}})
    CHECK(harness.Take<Weights>(peer).empty());
  harness.Commits(0);
  CHECK(harness.Take<Weights>().size() == 1);
  CHECK(harness.Take<Published>().empty());
  CHECK(harness.Take<Published>(ShardHarness::kOther).empty());
}

TEST_CASE("another attempt goes out again, and leaves what is in flight as it was", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1}));
  harness.CompleteStep(0, 4.0F);
  CHECK(Speculative(&harness) == Blocks{0, 1});
  harness.FromWorker(Waiting(harness, 1, {}, {}));  // both have arrived
  const std::vector<Slice> before = harness.payloads;
  harness.payloads.clear();
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  const std::vector<Weights> again = harness.Take<Weights>();
  REQUIRE(again.size() == 2);
  for (std::size_t i : {0U, 1U}) {
    CHECK(again[i].speculative);
    CHECK(again[i].attempt == 1);
    CHECK(First(harness.payloads[i]) == -2.0F);
    CHECK(again[i].payload_hash == Hash64(harness.payloads[i].bytes()));
    CHECK(First(before[i]) == -4.0F);
  }
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));  // repeated
  CHECK(Speculative(&harness).empty());
  harness.Commits(0, 1);
  CHECK(harness.Take<Published>().at(0).attempt == 1);
  CHECK(harness.WeightOf(0) == -2.0F);
}

TEST_CASE("after a step that was redone nothing goes out before the next one is", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().CompleteStep(0, 4.0F);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));
  harness.Commits(0, 1);
  harness.FromWorker(Waiting(harness, 2, {0}, {0}));
  harness.CompleteStep(1, 1.0F);
  CHECK(Speculative(&harness).empty());
  harness.Commits(1);  // the step was not redone this time
  CHECK(harness.Take<Published>().size() == 1);
  CHECK(harness.Take<Weights>().size() == 1);
  harness.FromWorker(Waiting(harness, 3, {0}, {0}));
  harness.CompleteStep(2, 1.0F);
  CHECK(Speculative(&harness) == Blocks{0});
}

TEST_CASE("without its trust ratios no attempt is the last", "[server][speculative]") {
  ShardHarness harness({.optimizer = OptimizerKind::kLars});
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  harness.CompleteStep(0, 1.0F);
  harness.FromCoordinator(harness.MakeRedo(0, 1, 0.5F));  // clipped
  CHECK(Speculative(&harness).empty());
  harness.FromCoordinator(harness.MakeRedo(0, 2, 0.5F, {2.0F, 3.0F, 4.0F}));
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].attempt == 2);
}

TEST_CASE("a skipped step says so, and who held what was prepared of it asks for the version's own blocks",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0, 1, 2}, {0, 1}));
  harness.CompleteStep(0, 4.0F);
  CHECK(Speculative(&harness) == Blocks{0, 1});
  harness.Commits(0, 0, StepAction::kSkip);
  const std::vector<Published> published = harness.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].action == StepAction::kSkip);
  harness.payloads.clear();
  harness.FromWorker(harness.MakePull(1, {0, 1}));
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 3);
  CHECK(weights[0].block == 2);  // it was not sent before
  for (const Slice& payload : harness.payloads) CHECK(First(payload) == 0.0F);
  for (const Weights& block : weights) CHECK(!block.speculative);
}

TEST_CASE("a step without samples prepares nothing that could go out", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  harness.CompleteStep(0, 0.0F, 0);
  CHECK(Speculative(&harness).empty());
}

TEST_CASE("a worker that missed Published asks again, and hears it with the blocks that it was not sent",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0}));
  harness.CompleteStep(0, 1.0F);
  Commit commit = harness.MakeCommit(0);
  commit.next.loss_scale = 8.0F;
  commit.next.stop = true;
  harness.FromCoordinator(commit);
  harness.Forget();
  for (int i = 0; i < 2; ++i) {
    harness.FromWorker(Waiting(harness, 1, {1}, {}));
    const std::vector<Envelope> answers = harness.TakeAll(ShardHarness::kWorker);
    REQUIRE(answers.size() == (i == 0 ? 2 : 1));
    const auto* published = answers[0].message.header.As<Published>();
    REQUIRE(published != nullptr);
    CHECK(published->loss_scale == 8.0F);
    CHECK(published->stop);
    if (i == 0) CHECK(answers[1].message.header.Is<Weights>());
  }
}

TEST_CASE("a pull that crosses Published gets it again, and nothing twice but what it asks for without waiting",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0, 2}, {0, 1, 2}));
  StageBlock(&harness, 0, 2, 1.0F);
  CHECK(Speculative(&harness) == Blocks{2});
  for (BlockIndex block : {0U, 1U}) StageBlock(&harness, 0, block, 1.0F);
  for (SlotIndex slot : {0U, 1U, 2U}) harness.FromWorker(harness.MakeEnd(0, slot));
  harness.Forget();
  harness.Commits(0);
  harness.Forget();
  const Pull late = Waiting(harness, 1, {0, 2}, {0, 1, 2});  // sent before Published
  for (int i = 0; i < 2; ++i) {
    harness.FromWorker(late);
    const std::size_t published = harness.Take<Published>().size(), weights = harness.Take<Weights>().size();
    harness.Forget();
    CHECK(published == 1);
    CHECK(weights == 0);
  }
  Pull other_session = late;
  other_session.session = SessionId{9};
  harness.FromWorker(other_session);
  CHECK(harness.Take<Weights>().size() == 2);
  harness.Forget();
  harness.FromWorker(late, {}, ShardHarness::kOther);
  CHECK(harness.Take<Weights>(ShardHarness::kOther).size() == 2);
  harness.Forget();
  harness.FromWorker(harness.MakePull(1, {2}));  // lost in flight
  CHECK(harness.Take<Weights>().size() == 1);
  harness.Forget();
  harness.Coverage(0);  // the round begins again
  harness.Forget();
  harness.FromWorker(late);
  CHECK(harness.Take<Weights>().size() == 2);
}

TEST_CASE("of pulls that cross Published, the second brings nothing that the first one brought",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1}));
  harness.CompleteStep(0, 1.0F);
  CHECK(Speculative(&harness) == Blocks{0, 1});
  harness.Commits(0);
  harness.Forget();
  harness.FromWorker(Waiting(harness, 1, {0, 2}, {0, 2}));  // block 1 has arrived
  harness.FromWorker(Waiting(harness, 1, {2}, {2}));        // and block 0
  CHECK(harness.Take<Weights>().size() == 1);
  CHECK(harness.Take<Published>().size() == 2);
}

TEST_CASE("who asks for a step's coverage gets nothing more of the next version before it pulls again",
          "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  StageBlock(&harness, 0, 2, 1.0F);
  StageBlock(&harness, 0, 1, 1.0F);
  CHECK(Speculative(&harness) == Blocks{2, 1});
  harness.Coverage(0);
  StageBlock(&harness, 0, 0, 1.0F);
  CHECK(Speculative(&harness).empty());
  harness.FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  CHECK(Speculative(&harness) == Blocks{0, 1});  // once more
}

TEST_CASE("nothing speculative outlives its generation", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {0, 1, 2}));
  StageBlock(&harness, 0, 2, 1.0F);
  CHECK(Speculative(&harness) == Blocks{2});
  harness.FromCoordinator(harness.MakeReset(2));
  harness.Forget();
  harness.generation = Generation{2};
  harness.CompleteStep(0, 2.0F);
  CHECK(Speculative(&harness).empty());
  harness.Commits(0);
  CHECK(harness.Take<Published>().empty());
}

TEST_CASE("speculative weights are encoded as the job's are", "[server][speculative]") {
  ShardHarness harness({.encoding = Encoding::kBf16, .statistics = {1}});
  Pull pull = Waiting(harness.Start(), 1, {0}, {0, 1});
  pull.encoding = Encoding::kBf16;
  harness.FromWorker(pull);
  harness.hyper = {};
  for (BlockIndex block : {0U, 1U}) {
    const Slice payload = harness.Values(block == 0 ? 2 : 4, 0.0F);
    for (const Node& slot : kSlots) {
      Push push = harness.MakePush(0, block, slot, 1, payload);
      push.encoding = block == 0 ? Encoding::kBf16 : Encoding::kFp32;
      harness.FromWorker(push, payload);
    }
  }
  const std::vector<Weights> weights = harness.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].encoding == Encoding::kBf16);
  CHECK(weights[1].encoding == Encoding::kFp32);
}

TEST_CASE("a pull of blocks ahead that are not here, or of too many, is invalid", "[server][speculative]") {
  ShardHarness harness;
  harness.Start().FromWorker(Waiting(harness, 1, {0}, {3}));
  CHECK(harness.Refused(Code::kInvalid));
  harness.FromWorker(Waiting(harness, 1, {0}, Blocks(PullQueue::kSpeculativeNamedMax + 1, 0)));
  CHECK(harness.Refused(Code::kInvalid));
}

}  // namespace
}  // namespace capstan::server
