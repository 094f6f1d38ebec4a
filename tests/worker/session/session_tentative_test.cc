// Speculative weights in a session: they are buffered until their version is published, and dropped if they belong to
// another attempt.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"
#include "worker/session/shard_pull.h"

namespace capstan::client {
namespace {

using std::chrono::seconds;
using Blocks = std::vector<BlockIndex>;

float First(const Slice& payload) { return *reinterpret_cast<const float*>(payload.data); }

void SendTentative(SessionBench* bench, BlockIndex block, std::uint64_t version, std::uint32_t attempt, float value) {
  const Slice payload = bench->Values(4, value);
  Weights weights = bench->MakeWeights(block, version, payload);
  weights.tentative = true;
  weights.attempt = attempt;
  bench->FromShard(SessionBench::ShardOf(block), weights, payload);
}

Published MakePublished(const SessionBench& bench, ShardIndex shard, std::uint64_t version, std::uint32_t attempt = 0) {
  Published published;
  published.generation = bench.session->generation();
  published.incarnation = Incarnation{50 + shard};
  published.version = Version{version};
  published.attempt = attempt;
  return published;
}

// Slot 0 of step 0 is computed and pushed; the session waits for version 1.
struct Waiting {
  explicit Waiting(std::size_t blocks = 4) : bench(Mode::kSync, blocks) {
    const Work work = bench.Join({0}).BeginWork();
    bench.PushAll(work, {0, 1});
    bench.Forget();
    bench.Ready();
  }
  SessionBench bench;
};

TEST_CASE("a pull of the next version names the blocks that would be held", "[client][tentative]") {
  Waiting waiting(80);
  const Pull pull = waiting.bench.TakeFor<Pull>(1).at(0);
  CHECK(pull.version == Version{1});
  CHECK(pull.follows);
  CHECK(pull.blocks == Blocks{1, 3});
  REQUIRE(pull.ahead.size() == ShardPull::kAheadMax);
  CHECK(pull.ahead.front() == 1);
  CHECK(pull.ahead.back() == 31);
}

TEST_CASE("tentative weights are handed over when their shard has published them, and not before",
          "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  bench.Forget();
  SendTentative(&bench, 2, 1, 0, 5.0F);
  CHECK(bench.NoEvents());
  const Pull pull = bench.TakeFor<Pull>(0).at(0);  // there is room for another one
  CHECK(pull.blocks == Blocks{0});
  CHECK(pull.ahead == Blocks{0});
  CHECK(pull.follows);
  SendTentative(&bench, 2, 1, 0, 6.0F);  // twice: the first counts
  SendTentative(&bench, 0, 1, 0, 5.0F);
  SendTentative(&bench, 1, 1, 0, 5.0F);
  CHECK(bench.NoEvents());
  CHECK(bench.session->unstaged_pushes() == 4);  // no message shows yet that they are no longer needed
  Published published = MakePublished(bench, 0, 1);
  published.loss_scale = 8.0F;
  published.updates = 1;
  published.program_state = "decided";
  bench.FromShard(0, published);
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{1});
  CHECK(ready[0].work.updates == 1);
  CHECK(ready[0].loss_scale == 8.0F);
  const std::vector<Session::WeightsArrived> weights = bench.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 2);  // of that shard
  CHECK(weights[0].block == 0);
  CHECK(weights[1].block == 2);
  CHECK(weights[0].program_state == "decided");  // only with block 0
  CHECK(weights[1].program_state.empty());
  for (const Session::WeightsArrived& block : weights) CHECK(First(block.payload) == 5.0F);
  CHECK(bench.session->unstaged_pushes() == 2);
  bench.FromShard(0, published);  // again
  CHECK(bench.NoEvents());
  bench.SendWeights(3, 1);
  bench.FromShard(1, MakePublished(bench, 1, 1));
  CHECK(bench.Events<Session::WeightsArrived>().size() == 2);
  bench.Forget();
  bench.Tick(seconds(2));
  CHECK(bench.Sent<Pull>() == 0);
}

TEST_CASE("weights of another attempt are dropped and asked for", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  SendTentative(&bench, 0, 1, 0, 5.0F);
  SendTentative(&bench, 2, 1, 0, 5.0F);
  bench.Forget();
  bench.FromShard(0, MakePublished(bench, 0, 1, 1));
  CHECK(bench.NoEvents());
  const Pull pull = bench.TakeFor<Pull>(0).at(0);
  CHECK(pull.blocks == Blocks{0, 2});
  CHECK(!pull.follows);
  SendTentative(&bench, 0, 1, 1, 6.0F);  // too late
  CHECK(bench.NoEvents());
}

TEST_CASE("what was asked for beside dropped weights is still asked for again", "[client][tentative]") {
  Waiting waiting(80);
  SessionBench& bench = waiting.bench;
  SendTentative(&bench, 0, 1, 0, 5.0F);  // now 2 and 4 are requested
  bench.FromShard(0, MakePublished(bench, 0, 1, 1));
  bench.Forget();
  bench.Tick(seconds(2));
  bench.LoseAll();
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == Blocks{0, 2});  // as the forward pass needs them
  bench.SendWeights(2, 1);
  const Blocks further = bench.TakeFor<Pull>(0).at(0).blocks;
  REQUIRE(!further.empty());
  CHECK(further.front() == 4);
}

TEST_CASE("a later attempt takes the place of all that is held, an earlier one does not", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  SendTentative(&bench, 0, 1, 0, 5.0F);
  SendTentative(&bench, 2, 1, 0, 5.0F);
  bench.Forget();
  SendTentative(&bench, 2, 1, 1, 6.0F);
  const Pull pull = bench.TakeFor<Pull>(0).at(0);
  CHECK(pull.blocks == Blocks{0});
  CHECK(pull.ahead == Blocks{0});
  SendTentative(&bench, 0, 1, 0, 5.0F);
  CHECK(bench.Sent<Pull>() == 0);
  bench.FromShard(0, MakePublished(bench, 0, 1, 1));
  const std::vector<Session::WeightsArrived> weights = bench.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].block == 2);
  CHECK(First(weights[0].payload) == 6.0F);
}

TEST_CASE("what was prepared of a skipped step is dropped", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  SendTentative(&bench, 0, 1, 0, 5.0F);
  bench.Forget();
  Published published = MakePublished(bench, 0, 1);
  published.action = StepAction::kSkip;
  bench.FromShard(0, published);
  CHECK(bench.NoEvents());
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == Blocks{0});
  bench.SendWeights(0, 1);
  const std::vector<Session::WeightsArrived> weights = bench.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 1);
  CHECK(First(weights[0].payload) == 1.0F);
}

TEST_CASE("weights and words of another generation or life of a shard are not taken", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  const Slice payload = bench.Values(4, 5.0F);
  Weights weights = bench.MakeWeights(0, 1, payload);
  weights.tentative = true;
  for (int what = 0; what < 2; ++what) {
    Weights other = weights;
    (what == 0 ? other.generation.value : other.incarnation.value) += 1;
    bench.FromShard(0, other, payload);
  }
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.NoEvents());

  SendTentative(&bench, 1, 1, 0, 5.0F);
  for (int what = 0; what < 3; ++what) {
    Published published = MakePublished(bench, 1, 1);
    if (what == 0) ++published.generation.value;
    if (what == 1) ++published.incarnation.value;
    if (what == 2) ++published.version.value;
    bench.FromShard(1, published);
  }
  CHECK(bench.NoEvents());
  // In a new generation, MakePublished's message is about another version 1.
  bench.FromCoordinator(bench.MakeView({0}, 2));
  bench.Events<Session::WorkVoid>();
  bench.FromShard(1, MakePublished(bench, 1, 1));
  CHECK(bench.NoEvents());
}

TEST_CASE("damaged tentative weights are not held", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  const Slice payload = bench.Values(4, 5.0F);
  Weights weights = bench.MakeWeights(0, 1, payload);
  weights.tentative = true;
  ++weights.payload_hash;
  bench.FromShard(0, weights, payload);
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.NoEvents());
}

TEST_CASE("a lost Published is asked for again", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  for (BlockIndex block : {0U, 2U}) SendTentative(&bench, block, 1, 0, 5.0F);
  for (BlockIndex block : {1U, 3U}) SendTentative(&bench, block, 1, 0, 5.0F);
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.Events<Session::WeightsArrived>().size() == 2);
  bench.Forget();
  bench.Tick(seconds(2));
  bench.LoseAll();
  CHECK(bench.TakeFor<Pull>(0).empty());
  const Pull pull = bench.TakeFor<Pull>(1).at(0);
  CHECK(pull.blocks.empty());
  CHECK(pull.follows);
  bench.FromShard(1, MakePublished(bench, 1, 1));
  CHECK(bench.Events<Session::WeightsArrived>().size() == 2);
}

TEST_CASE("who is given another slot of the step before goes on with its weights, and holds nothing",
          "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  for (BlockIndex block : {0U, 1U, 2U, 3U}) SendTentative(&bench, block, 1, 0, 5.0F);
  bench.FromCoordinator(bench.MakeView({0, 1}));
  bench.NothingCovered(0);
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{0});
  CHECK(ready[0].weights_held);  // version 0, untouched
  CHECK(bench.NoEvents());
  bench.FromShard(0, MakePublished(bench, 0, 1));  // of the pull before
  CHECK(bench.NoEvents());
  bench.PushAll(ready[0].work, {1, 2});
  bench.Forget();
  bench.Ready();
  CHECK(bench.TakeFor<Pull>(0).at(0).ahead == Blocks{0, 2});  // all of it again
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.NoEvents());
}

TEST_CASE("who is left with fewer slots holds nothing, and says so before it pulls again", "[client][tentative]") {
  SessionBench bench;
  const Work work = bench.Join({0, 1}).BeginWork();
  for (SlotIndex slot : work.slots) bench.PushAll(work, {slot, slot + 1});
  bench.Ready();
  for (BlockIndex block : {0U, 1U, 2U, 3U}) SendTentative(&bench, block, 1, 0, 5.0F);
  bench.Forget();
  bench.FromCoordinator(bench.MakeView({0}));
  for (ShardIndex shard : {0U, 1U}) {
    const std::vector<CoverageQuery> queries = bench.TakeFor<CoverageQuery>(shard);
    REQUIRE(queries.size() == 1);
    CHECK(queries[0].step == Step{0});  // for a later step it would be refused
    const std::vector<Pull> pulls = bench.TakeFor<Pull>(shard);
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].ahead == Blocks{shard, shard + 2});
  }
  bench.NothingCovered(0);  // the answers
  SendTentative(&bench, 0, 1, 0, 5.0F);
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.Events<Session::WeightsArrived>().size() == 1);
}

TEST_CASE("the last version is not computed with, whatever is held of it", "[client][tentative]") {
  Waiting waiting;
  SessionBench& bench = waiting.bench;
  SendTentative(&bench, 0, 1, 0, 5.0F);
  Published published = MakePublished(bench, 0, 1);
  published.stop = true;
  bench.FromShard(0, published);
  CHECK(bench.NoEvents());
  bench.Forget();
  bench.Tick(seconds(2));
  CHECK(bench.Sent<Pull>() == 0);
}

TEST_CASE("more than a window is never held", "[client][tentative]") {
  Waiting waiting(80);
  SessionBench& bench = waiting.bench;
  for (BlockIndex block = 0; block < 80; ++block) SendTentative(&bench, block, 1, 0, 5.0F);
  bench.FromShard(0, MakePublished(bench, 0, 1));
  CHECK(bench.Events<Session::WeightsArrived>().size() == ShardPull::kAheadMax);
}

}  // namespace
}  // namespace capstan::client
