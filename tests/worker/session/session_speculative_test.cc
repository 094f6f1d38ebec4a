// Speculative weights in a session: they are buffered until their version is published, and dropped if they belong to
// another attempt.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"
#include "worker/session/shard_pull.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;
using Blocks = std::vector<BlockIndex>;

float First(const Slice& payload) { return *reinterpret_cast<const float*>(payload.data); }

void SendSpeculative(SessionHarness* harness, BlockIndex block, std::uint64_t version, std::uint32_t attempt,
                     float value) {
  const Slice payload = harness->Values(4, value);
  Weights weights = harness->MakeWeights(block, version, payload);
  weights.speculative = true;
  weights.attempt = attempt;
  harness->FromShard(SessionHarness::ShardOf(block), weights, payload);
}

Published MakePublished(const SessionHarness& harness, ShardIndex shard, std::uint64_t version,
                        std::uint32_t attempt = 0) {
  Published published;
  published.generation = harness.session->generation();
  published.incarnation = Incarnation{50 + shard};
  published.version = Version{version};
  published.attempt = attempt;
  return published;
}

// A session that has computed and pushed slot 0 of step 0, and waits for version 1.
struct Waiting {
  explicit Waiting(std::size_t blocks = 4, bool speculates = true) : harness(Mode::kSync, blocks) {
    harness.speculates = speculates;
    const RoundWork work = harness.Join({0}).BeginWork();
    harness.PushAll(work, {0, 1});
    harness.Forget();
    harness.Ready();
  }
  SessionHarness harness;
};

TEST_CASE("a pull of the next version names the blocks that would be held", "[client][speculative]") {
  Waiting waiting(80);
  const Pull pull = waiting.harness.TakeFor<Pull>(1).at(0);
  CHECK(pull.version == Version{1});
  CHECK(pull.follows);
  CHECK(pull.blocks == Blocks{1, 3});
  REQUIRE(pull.speculative.size() == ShardPull::kSpeculativeMax);
  CHECK(pull.speculative.front() == 1);
  CHECK(pull.speculative.back() == 31);
}

TEST_CASE("a session that does not speculate names none, and gets its blocks after the publication",
          "[client][speculative]") {
  Waiting waiting(4, false);
  const Pull pull = waiting.harness.TakeFor<Pull>(1).at(0);
  CHECK(pull.follows);
  CHECK(pull.blocks == Blocks{1, 3});
  CHECK(pull.speculative.empty());
  waiting.harness.FromShard(1, MakePublished(waiting.harness, 1, 1));
  const Slice payload = waiting.harness.Values(4, 3.0F);
  for (const BlockIndex block : {1U, 3U})
    waiting.harness.FromShard(1, waiting.harness.MakeWeights(block, 1, payload), payload);
  CHECK(waiting.harness.Events<Session::WeightsArrived>().size() == 2);
}

TEST_CASE("speculative weights are handed over when their shard has published them, and not before",
          "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  harness.Forget();
  SendSpeculative(&harness, 2, 1, 0, 5.0F);
  CHECK(harness.NoEvents());
  const Pull pull = harness.TakeFor<Pull>(0).at(0);  // there is room for another one
  CHECK(pull.blocks == Blocks{0});
  CHECK(pull.speculative == Blocks{0});
  CHECK(pull.follows);
  SendSpeculative(&harness, 2, 1, 0, 6.0F);  // twice: the first counts
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  SendSpeculative(&harness, 1, 1, 0, 5.0F);
  CHECK(harness.NoEvents());
  CHECK(harness.session->links().unstaged_pushes() == 4);  // no message shows yet that they are no longer needed
  Published published = MakePublished(harness, 0, 1);
  published.loss_scale = 8.0F;
  published.updates = 1;
  published.program_state = "decided";
  harness.FromShard(0, published);
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{1});
  CHECK(ready[0].work.updates == 1);
  CHECK(ready[0].loss_scale == 8.0F);
  const std::vector<Session::WeightsArrived> weights = harness.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 2);  // of that shard
  CHECK(weights[0].block == 0);
  CHECK(weights[1].block == 2);
  CHECK(weights[0].program_state == "decided");  // only with block 0
  CHECK(weights[1].program_state.empty());
  for (const Session::WeightsArrived& block : weights) CHECK(First(block.payload) == 5.0F);
  CHECK(harness.session->links().unstaged_pushes() == 2);
  harness.FromShard(0, published);  // again
  CHECK(harness.NoEvents());
  harness.SendWeights(3, 1);
  harness.FromShard(1, MakePublished(harness, 1, 1));
  CHECK(harness.Events<Session::WeightsArrived>().size() == 2);
  harness.Forget();
  harness.Tick(seconds(2));
  CHECK(harness.Sent<Pull>() == 0);
}

TEST_CASE("weights of another attempt are dropped and asked for", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  SendSpeculative(&harness, 2, 1, 0, 5.0F);
  harness.Forget();
  harness.FromShard(0, MakePublished(harness, 0, 1, 1));
  CHECK(harness.NoEvents());
  const Pull pull = harness.TakeFor<Pull>(0).at(0);
  CHECK(pull.blocks == Blocks{0, 2});
  CHECK(!pull.follows);
  SendSpeculative(&harness, 0, 1, 1, 6.0F);  // too late
  CHECK(harness.NoEvents());
}

TEST_CASE("what was asked for beside dropped weights is still asked for again", "[client][speculative]") {
  Waiting waiting(80);
  SessionHarness& harness = waiting.harness;
  SendSpeculative(&harness, 0, 1, 0, 5.0F);  // now 2 and 4 are requested
  harness.FromShard(0, MakePublished(harness, 0, 1, 1));
  harness.Forget();
  harness.Tick(seconds(2));
  harness.LoseAll();
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == Blocks{0, 2});  // as the forward pass needs them
  harness.SendWeights(2, 1);
  const Blocks further = harness.TakeFor<Pull>(0).at(0).blocks;
  REQUIRE(!further.empty());
  CHECK(further.front() == 4);
}

TEST_CASE("a later attempt takes the place of all that is held, an earlier one does not", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  SendSpeculative(&harness, 2, 1, 0, 5.0F);
  harness.Forget();
  SendSpeculative(&harness, 2, 1, 1, 6.0F);
  const Pull pull = harness.TakeFor<Pull>(0).at(0);
  CHECK(pull.blocks == Blocks{0});
  CHECK(pull.speculative == Blocks{0});
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  CHECK(harness.Sent<Pull>() == 0);
  harness.FromShard(0, MakePublished(harness, 0, 1, 1));
  const std::vector<Session::WeightsArrived> weights = harness.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 1);
  CHECK(weights[0].block == 2);
  CHECK(First(weights[0].payload) == 6.0F);
}

TEST_CASE("what was prepared of a skipped step is dropped", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  harness.Forget();
  Published published = MakePublished(harness, 0, 1);
  published.action = StepAction::kSkip;
  harness.FromShard(0, published);
  CHECK(harness.NoEvents());
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == Blocks{0});
  harness.SendWeights(0, 1);
  const std::vector<Session::WeightsArrived> weights = harness.Events<Session::WeightsArrived>();
  REQUIRE(weights.size() == 1);
  CHECK(First(weights[0].payload) == 1.0F);
}

TEST_CASE("weights and words of another generation or life of a shard are not taken", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  const Slice payload = harness.Values(4, 5.0F);
  Weights weights = harness.MakeWeights(0, 1, payload);
  weights.speculative = true;
  for (int what = 0; what < 2; ++what) {
    Weights other = weights;
    (what == 0 ? other.generation.value : other.incarnation.value) += 1;
    harness.FromShard(0, other, payload);
  }
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.NoEvents());

  SendSpeculative(&harness, 1, 1, 0, 5.0F);
  for (int what = 0; what < 3; ++what) {
    Published published = MakePublished(harness, 1, 1);
    if (what == 0) ++published.generation.value;
    if (what == 1) ++published.incarnation.value;
    if (what == 2) ++published.version.value;
    harness.FromShard(1, published);
  }
  CHECK(harness.NoEvents());
  // Published of a new generation must not confirm a speculative block of the generation before, for the same version.
  harness.FromCoordinator(harness.MakeView({0}, 2));
  harness.Events<Session::WorkVoid>();
  harness.FromShard(1, MakePublished(harness, 1, 1));
  CHECK(harness.NoEvents());
}

TEST_CASE("damaged speculative weights are not held", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  const Slice payload = harness.Values(4, 5.0F);
  Weights weights = harness.MakeWeights(0, 1, payload);
  weights.speculative = true;
  ++weights.payload_hash;
  harness.FromShard(0, weights, payload);
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.NoEvents());
}

TEST_CASE("a lost Published is asked for again", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  for (BlockIndex block : {0U, 2U}) SendSpeculative(&harness, block, 1, 0, 5.0F);
  for (BlockIndex block : {1U, 3U}) SendSpeculative(&harness, block, 1, 0, 5.0F);
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.Events<Session::WeightsArrived>().size() == 2);
  harness.Forget();
  harness.Tick(seconds(2));
  harness.LoseAll();
  CHECK(harness.TakeFor<Pull>(0).empty());
  const Pull pull = harness.TakeFor<Pull>(1).at(0);
  CHECK(pull.blocks.empty());
  CHECK(pull.follows);
  harness.FromShard(1, MakePublished(harness, 1, 1));
  CHECK(harness.Events<Session::WeightsArrived>().size() == 2);
}

TEST_CASE("who is given another slot of the step before goes on with its weights, and holds nothing",
          "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  for (BlockIndex block : {0U, 1U, 2U, 3U}) SendSpeculative(&harness, block, 1, 0, 5.0F);
  harness.FromCoordinator(harness.MakeView({0, 1}));
  harness.NothingCovered(0);
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{0});
  CHECK(ready[0].weights_complete);  // version 0, untouched
  CHECK(harness.NoEvents());
  harness.FromShard(0, MakePublished(harness, 0, 1));  // of the pull before
  CHECK(harness.NoEvents());
  harness.PushAll(ready[0].work, {1, 2});
  harness.Forget();
  harness.Ready();
  CHECK(harness.TakeFor<Pull>(0).at(0).speculative == Blocks{0, 2});  // all of it again
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.NoEvents());
}

TEST_CASE("who is left with fewer slots holds nothing, and says so before it pulls again", "[client][speculative]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0, 1}).BeginWork();
  for (SlotIndex slot : work.slots) harness.PushAll(work, {slot, slot + 1});
  harness.Ready();
  for (BlockIndex block : {0U, 1U, 2U, 3U}) SendSpeculative(&harness, block, 1, 0, 5.0F);
  harness.Forget();
  harness.FromCoordinator(harness.MakeView({0}));
  for (ShardIndex shard : {0U, 1U}) {
    const std::vector<CoverageQuery> queries = harness.TakeFor<CoverageQuery>(shard);
    REQUIRE(queries.size() == 1);
    CHECK(queries[0].step == Step{0});  // for a later step it would be refused
    const std::vector<Pull> pulls = harness.TakeFor<Pull>(shard);
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].speculative == Blocks{shard, shard + 2});
  }
  harness.NothingCovered(0);  // the answers
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.Events<Session::WeightsArrived>().size() == 1);
}

TEST_CASE("the last version is not computed with, whatever is held of it", "[client][speculative]") {
  Waiting waiting;
  SessionHarness& harness = waiting.harness;
  SendSpeculative(&harness, 0, 1, 0, 5.0F);
  Published published = MakePublished(harness, 0, 1);
  published.stop = true;
  harness.FromShard(0, published);
  CHECK(harness.NoEvents());
  harness.Forget();
  harness.Tick(seconds(2));
  CHECK(harness.Sent<Pull>() == 0);
}

TEST_CASE("more than a window is never held", "[client][speculative]") {
  Waiting waiting(80);
  SessionHarness& harness = waiting.harness;
  for (BlockIndex block = 0; block < 80; ++block) SendSpeculative(&harness, block, 1, 0, 5.0F);
  harness.FromShard(0, MakePublished(harness, 0, 1));
  CHECK(harness.Events<Session::WeightsArrived>().size() == ShardPull::kSpeculativeMax);
}

}  // namespace
}  // namespace capstan::session
