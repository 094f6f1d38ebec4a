// Speculative weights of a shard: what the shard sends before the decision, and what makes it void.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

constexpr Node kSlots[] = {{0, 1}, {1, 2}, {2, 3}};

Pull Waiting(const ShardBench& bench, std::uint64_t version, std::vector<BlockIndex> blocks,
             std::vector<BlockIndex> ahead) {
  Pull pull = bench.MakePull(version, std::move(blocks));
  pull.ahead = std::move(ahead);
  pull.follows = true;
  return pull;
}

void StageBlock(ShardBench* bench, std::uint64_t step, BlockIndex block, float value) {
  for (const Node& slot : kSlots) bench->Stage(step, block, slot, 1, value);
}

float First(const Slice& payload) { return *reinterpret_cast<const float*>(payload.data); }

std::vector<BlockIndex> Tentative(ShardBench* bench) {
  std::vector<BlockIndex> blocks;
  for (const Weights& weights : bench->Take<Weights>()) {
    CHECK(weights.tentative);
    blocks.push_back(weights.block);
  }
  return blocks;
}

using Blocks = std::vector<BlockIndex>;

TEST_CASE("a block goes to who waits for it as soon as it is prepared, two at a time, and once",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  CHECK(bench.Take<Weights>().empty());
  StageBlock(&bench, 0, 2, 1.0F);
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].tentative);
  CHECK(weights[0].block == 2);
  CHECK(weights[0].version == Version{1});
  CHECK(weights[0].attempt == 0);
  CHECK(weights[0].generation == Generation{1});
  CHECK(weights[0].incarnation == Incarnation{7});
  CHECK(weights[0].payload_hash == Hash64(bench.payloads[0].bytes()));
  CHECK(First(bench.payloads[0]) == -1.0F);
  StageBlock(&bench, 0, 1, 1.0F);
  CHECK(Tentative(&bench) == Blocks{1});
  StageBlock(&bench, 0, 0, 1.0F);
  CHECK(Tentative(&bench).empty());
  bench.FromWorker(Waiting(bench, 1, {0}, {0, 1}));  // block 2 has arrived
  CHECK(Tentative(&bench) == Blocks{0});
  bench.FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));  // a late pull
  CHECK(Tentative(&bench).empty());
  for (SlotIndex slot : {0U, 1U, 2U}) bench.FromWorker(bench.MakeEnd(0, slot));
  CHECK(bench.Take<Published>().empty());
  CHECK(bench.WeightOf(0) == 0.0F);  // published: version 0
  Commit commit = bench.MakeCommit(0);
  commit.next.program_state = "decided";
  bench.FromCoordinator(commit);
  const std::vector<Published> published = bench.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].version == Version{1});
  CHECK(published[0].updates == 1);
  CHECK(published[0].program_state == "decided");
  CHECK(published[0].attempt == 0);
  CHECK(published[0].action == StepAction::kApply);
  CHECK(published[0].generation == Generation{1});
  CHECK(published[0].incarnation == Incarnation{7});
  CHECK(bench.Take<Weights>().empty());  // everything is there
}

TEST_CASE("what did not go out before the Commit follows Published", "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0, 1}, {1, 2}));
  bench.CompleteStep(0, 1.0F);
  CHECK(Tentative(&bench) == Blocks{1, 2});
  bench.Commits(0);
  CHECK(bench.Take<Published>().size() == 1);
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].block == 0);
  CHECK(!weights[0].tentative);
}

TEST_CASE("nobody else gets tentative weights", "[server][tentative]") {
  ShardBench bench;
  Pull reader = Waiting(bench.Start(), 1, {0}, {0, 1});
  reader.follows = false;
  bench.FromWorker(reader);
  bench.FromWorker(Waiting(bench, 2, {0}, {0, 1}), {}, ShardBench::kOther);  // a version further
  bench.FromWorker(bench.MakePull(1, {2}), {}, PeerId{4});
  bench.CompleteStep(0, 1.0F);
  for (PeerId peer : {ShardBench::kWorker, ShardBench::kOther, PeerId{4}}) CHECK(bench.Take<Weights>(peer).empty());
  bench.Commits(0);
  CHECK(bench.Take<Weights>().size() == 1);
  CHECK(bench.Take<Published>().empty());
  CHECK(bench.Take<Published>(ShardBench::kOther).empty());
}

TEST_CASE("another attempt goes out anew, and leaves what is on its way as it was", "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1}));
  bench.CompleteStep(0, 4.0F);
  CHECK(Tentative(&bench) == Blocks{0, 1});
  bench.FromWorker(Waiting(bench, 1, {}, {}));  // both have arrived
  const std::vector<Slice> before = bench.payloads;
  bench.payloads.clear();
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  const std::vector<Weights> again = bench.Take<Weights>();
  REQUIRE(again.size() == 2);
  for (std::size_t i : {0U, 1U}) {
    CHECK(again[i].tentative);
    CHECK(again[i].attempt == 1);
    CHECK(First(bench.payloads[i]) == -2.0F);
    CHECK(again[i].payload_hash == Hash64(bench.payloads[i].bytes()));
    CHECK(First(before[i]) == -4.0F);
  }
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));  // repeated
  CHECK(Tentative(&bench).empty());
  bench.Commits(0, 1);
  CHECK(bench.Take<Published>().at(0).attempt == 1);
  CHECK(bench.WeightOf(0) == -2.0F);
}

TEST_CASE("after a step that was redone nothing goes out before the next one is", "[server][tentative]") {
  ShardBench bench;
  bench.Start().CompleteStep(0, 4.0F);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));
  bench.Commits(0, 1);
  bench.FromWorker(Waiting(bench, 2, {0}, {0}));
  bench.CompleteStep(1, 1.0F);
  CHECK(Tentative(&bench).empty());
  bench.Commits(1);  // the step was not redone this time
  CHECK(bench.Take<Published>().size() == 1);
  CHECK(bench.Take<Weights>().size() == 1);
  bench.FromWorker(Waiting(bench, 3, {0}, {0}));
  bench.CompleteStep(2, 1.0F);
  CHECK(Tentative(&bench) == Blocks{0});
}

TEST_CASE("without its trust ratios no attempt is the last", "[server][tentative]") {
  ShardBench bench({.optimizer = OptimizerKind::kLars});
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  bench.CompleteStep(0, 1.0F);
  bench.FromCoordinator(bench.MakeRedo(0, 1, 0.5F));  // clipped
  CHECK(Tentative(&bench).empty());
  bench.FromCoordinator(bench.MakeRedo(0, 2, 0.5F, {2.0F, 3.0F, 4.0F}));
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].attempt == 2);
}

TEST_CASE("a skipped step says so, and who held what was prepared of it asks for the version's own blocks",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0, 1, 2}, {0, 1}));
  bench.CompleteStep(0, 4.0F);
  CHECK(Tentative(&bench) == Blocks{0, 1});
  bench.Commits(0, 0, StepAction::kSkip);
  const std::vector<Published> published = bench.Take<Published>();
  REQUIRE(published.size() == 1);
  CHECK(published[0].action == StepAction::kSkip);
  bench.payloads.clear();
  bench.FromWorker(bench.MakePull(1, {0, 1}));
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 3);
  CHECK(weights[0].block == 2);  // it was not sent before
  for (const Slice& payload : bench.payloads) CHECK(First(payload) == 0.0F);
  for (const Weights& block : weights) CHECK(!block.tentative);
}

TEST_CASE("a step without samples prepares nothing that could go out", "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  bench.CompleteStep(0, 0.0F, 0);
  CHECK(Tentative(&bench).empty());
}

TEST_CASE("a worker that missed Published asks again, and hears it with the blocks that it was not sent",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0}));
  bench.CompleteStep(0, 1.0F);
  Commit commit = bench.MakeCommit(0);
  commit.next.loss_scale = 8.0F;
  commit.next.stop = true;
  bench.FromCoordinator(commit);
  bench.Forget();
  for (int i = 0; i < 2; ++i) {
    bench.FromWorker(Waiting(bench, 1, {1}, {}));
    const std::vector<Envelope> answers = bench.TakeAll(ShardBench::kWorker);
    REQUIRE(answers.size() == (i == 0 ? 2 : 1));
    const auto* published = answers[0].message.header.As<Published>();
    REQUIRE(published != nullptr);
    CHECK(published->loss_scale == 8.0F);
    CHECK(published->stop);
    if (i == 0) CHECK(answers[1].message.header.Is<Weights>());
  }
}

TEST_CASE("a pull that crosses Published gets it again, and nothing twice but what it asks for without waiting",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0, 2}, {0, 1, 2}));
  StageBlock(&bench, 0, 2, 1.0F);
  CHECK(Tentative(&bench) == Blocks{2});
  for (BlockIndex block : {0U, 1U}) StageBlock(&bench, 0, block, 1.0F);
  for (SlotIndex slot : {0U, 1U, 2U}) bench.FromWorker(bench.MakeEnd(0, slot));
  bench.Forget();
  bench.Commits(0);
  bench.Forget();
  const Pull late = Waiting(bench, 1, {0, 2}, {0, 1, 2});  // sent before Published
  for (int i = 0; i < 2; ++i) {
    bench.FromWorker(late);
    const std::size_t published = bench.Take<Published>().size(), weights = bench.Take<Weights>().size();
    bench.Forget();
    CHECK(published == 1);
    CHECK(weights == 0);
  }
  Pull other_session = late;
  other_session.session = SessionId{9};
  bench.FromWorker(other_session);
  CHECK(bench.Take<Weights>().size() == 2);
  bench.Forget();
  bench.FromWorker(late, {}, ShardBench::kOther);
  CHECK(bench.Take<Weights>(ShardBench::kOther).size() == 2);
  bench.Forget();
  bench.FromWorker(bench.MakePull(1, {2}));  // lost in flight
  CHECK(bench.Take<Weights>().size() == 1);
  bench.Forget();
  bench.Coverage(0);  // the round begins again
  bench.Forget();
  bench.FromWorker(late);
  CHECK(bench.Take<Weights>().size() == 2);
}

TEST_CASE("of pulls that cross Published, the second brings nothing that the first one brought",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1}));
  bench.CompleteStep(0, 1.0F);
  CHECK(Tentative(&bench) == Blocks{0, 1});
  bench.Commits(0);
  bench.Forget();
  bench.FromWorker(Waiting(bench, 1, {0, 2}, {0, 2}));  // block 1 has arrived
  bench.FromWorker(Waiting(bench, 1, {2}, {2}));        // and block 0
  CHECK(bench.Take<Weights>().size() == 1);
  CHECK(bench.Take<Published>().size() == 2);
}

TEST_CASE("who asks for a step's coverage gets nothing more of the next version before it pulls again",
          "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  StageBlock(&bench, 0, 2, 1.0F);
  StageBlock(&bench, 0, 1, 1.0F);
  CHECK(Tentative(&bench) == Blocks{2, 1});
  bench.Coverage(0);
  StageBlock(&bench, 0, 0, 1.0F);
  CHECK(Tentative(&bench).empty());
  bench.FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  CHECK(Tentative(&bench) == Blocks{0, 1});  // once more
}

TEST_CASE("nothing tentative outlives its generation", "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {0, 1, 2}));
  StageBlock(&bench, 0, 2, 1.0F);
  CHECK(Tentative(&bench) == Blocks{2});
  bench.FromCoordinator(bench.MakeReset(2));
  bench.Forget();
  bench.generation = Generation{2};
  bench.CompleteStep(0, 2.0F);
  CHECK(Tentative(&bench).empty());
  bench.Commits(0);
  CHECK(bench.Take<Published>().empty());
}

TEST_CASE("tentative weights are encoded as the job's are", "[server][tentative]") {
  ShardBench bench({.encoding = Encoding::kBf16, .statistics = {1}});
  Pull pull = Waiting(bench.Start(), 1, {0}, {0, 1});
  pull.encoding = Encoding::kBf16;
  bench.FromWorker(pull);
  bench.hyper = {};
  for (BlockIndex block : {0U, 1U}) {
    const Slice payload = bench.Values(block == 0 ? 2 : 4, 0.0F);
    for (const Node& slot : kSlots) {
      Push push = bench.MakePush(0, block, slot, 1, payload);
      push.encoding = block == 0 ? Encoding::kBf16 : Encoding::kFp32;
      bench.FromWorker(push, payload);
    }
  }
  const std::vector<Weights> weights = bench.Take<Weights>();
  REQUIRE(weights.size() == 2);
  CHECK(weights[0].encoding == Encoding::kBf16);
  CHECK(weights[1].encoding == Encoding::kFp32);
}

TEST_CASE("a pull of blocks ahead that are not here, or of too many, is invalid", "[server][tentative]") {
  ShardBench bench;
  bench.Start().FromWorker(Waiting(bench, 1, {0}, {3}));
  CHECK(bench.Refused(Code::kInvalid));
  bench.FromWorker(Waiting(bench, 1, {0}, Blocks(PullQueue::kSpeculativeNamedMax + 1, 0)));
  CHECK(bench.Refused(Code::kInvalid));
}

}  // namespace
}  // namespace capstan::server
