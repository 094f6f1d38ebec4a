// A session whose worker brings the job's first weights: when it uploads them, and how long it keeps them.
#include "common/wire/messages/membership.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

using namespace capstan;
using namespace capstan::session;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

// A session whose worker brings first weights for all tensors but the first. Element i of the flat array is i.
class FirstWeightsHarness : public SessionHarness {
 public:
  explicit FirstWeightsHarness(Mode mode = Mode::kSync, std::size_t blocks = 4)
      : SessionHarness(mode, blocks), pool_(blocks * 16) {
    Declaration declaration = MakeDeclaration();
    for (std::size_t i = 1; i < declaration.catalog.size(); ++i)
      declaration.catalog[i].init.kind = InitKind::kFromWorker;
    declaration.given = pool_.Take();
    for (std::size_t i = 0; i < blocks * 4; ++i) declaration.given.As<float>()[i] = static_cast<float>(i);
    session->Declare(std::move(declaration), now, &joins_);
  }
  std::size_t initial_bytes() const { return pool_.in_use_bytes(); }
  View MakeFounderView(std::uint64_t generation = 1) {
    View view = MakeView({0}, generation);
    view.founder = true;
    return view;
  }
  std::vector<BlockIndex> AskedFor(ShardIndex shard) {
    std::vector<BlockIndex> blocks;
    for (const UploadBlock& upload : TakeFor<UploadBlock>(shard)) blocks.push_back(upload.block);
    return blocks;
  }
  void Acknowledge(ShardIndex shard, std::vector<BlockIndex> blocks) {
    FromShard(shard, UploadAck{session->generation(), Incarnation{50 + shard}, shard, std::move(blocks), {}});
  }

 private:
  BufferPool pool_;
  Outbox joins_;
};

}  // namespace

TEST_CASE("a founder sends the blocks that are given to their shards, before it is asked for work", "[client][given]") {
  FirstWeightsHarness harness;
  harness.FromCoordinator(harness.MakeFounderView());
  const std::vector<UploadBlock> second = harness.TakeFor<UploadBlock>(1);
  REQUIRE(second.size() == 2);
  CHECK(second[0].block == 1);
  CHECK(second[0].session == SessionId{7});
  CHECK(second[0].incarnation == Incarnation{51});
  const std::vector<float> values = {4, 5, 6, 7};
  CHECK(second[0].payload_hash == Hash64(std::as_bytes(std::span(values))));
  CHECK(harness.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK_THAT(harness.session->WaitingFor(), Contains("shard 0 at shard-0 (to take the first weights), shard 1"));
}

TEST_CASE("who is not the founder sends none", "[client][given]") {
  FirstWeightsHarness harness;
  harness.FromCoordinator(harness.MakeView({0}));
  CHECK(harness.Sent<UploadBlock>() == 0);
}

TEST_CASE("first weights go out a few blocks at a time", "[client][given]") {
  FirstWeightsHarness harness(Mode::kSync, 20);
  harness.FromCoordinator(harness.MakeFounderView());
  CHECK(harness.AskedFor(1) == std::vector<BlockIndex>{1, 3, 5, 7});
  harness.Acknowledge(1, {3, 1});
  CHECK(harness.AskedFor(1) == std::vector<BlockIndex>{9, 11});
  harness.Acknowledge(1, {3, 1});  // no news
  CHECK(harness.AskedFor(1).empty());
}

TEST_CASE("first weights that nobody acknowledges are sent again", "[client][given]") {
  FirstWeightsHarness harness;
  harness.FromCoordinator(harness.MakeFounderView());
  harness.Acknowledge(1, {1});
  harness.Forget();
  harness.Tick(10s);
  CHECK(harness.Sent<UploadBlock>() == 0);
  harness.LoseAll();
  CHECK(harness.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK(harness.AskedFor(1) == std::vector<BlockIndex>{3});
  harness.Acknowledge(0, {2});
  harness.Acknowledge(1, {3});
  harness.Forget();
  harness.Tick(10s);
  CHECK(harness.Sent<UploadBlock>() == 0);
  CHECK(harness.session->WaitingFor().empty());
}

TEST_CASE("a view that says it again asks for nothing again; a new generation asks for all", "[client][given]") {
  FirstWeightsHarness harness;
  harness.FromCoordinator(harness.MakeFounderView());
  harness.Acknowledge(1, {1, 3});
  harness.Forget();
  harness.FromCoordinator(harness.MakeFounderView());
  CHECK(harness.Sent<UploadBlock>() == 0);
  harness.FromCoordinator(harness.MakeFounderView(2));
  CHECK(harness.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK(harness.AskedFor(1) == std::vector<BlockIndex>{1, 3});
  harness.FromCoordinator(harness.MakeView({0}, 3));  // a generation that asks another worker
  harness.Forget();
  harness.Tick(10s);
  CHECK(harness.Sent<UploadBlock>() == 0);
}

TEST_CASE("the weights stay until a round shows that they are kept", "[client][given]") {
  for (Mode mode : {Mode::kSync, Mode::kAsync}) {
    FirstWeightsHarness harness(mode);
    harness.FromCoordinator(harness.MakeFounderView());
    harness.Acknowledge(0, {2});
    harness.Acknowledge(1, {1, 3});
    harness.Forget();
    CHECK(harness.initial_bytes() > 0);
    harness.Ready();
    Staged clocks = harness.MakeCoverage(0, 0);
    if (mode == Mode::kAsync) clocks.clocks = {{0}, {0}, {0}, {0}};
    for (ShardIndex shard = 0; shard < SessionHarness::kShards; ++shard) {
      clocks.incarnation = Incarnation{50 + shard};
      clocks.shard = shard;
      harness.FromShard(shard, clocks);
    }
    CHECK(harness.initial_bytes() > 0);
    harness.SendWeights(0, 0);
    CHECK(harness.Events<Session::WorkReady>().size() == 1);
    CHECK(harness.initial_bytes() == 0);
    View late = harness.MakeFounderView();
    harness.FromCoordinator(late);  // it still asks for the first weights
    CHECK(harness.Events<Session::Failed>().empty());
  }
}

TEST_CASE("a shard that refuses first weights ends the session, in every mode", "[client][given]") {
  for (Mode mode : {Mode::kSync, Mode::kAsync}) {
    FirstWeightsHarness harness(mode);
    harness.FromCoordinator(harness.MakeFounderView());
    harness.FromShard(1, harness.MakeError(1, Code::kInvalid, 0));
    const std::vector<Session::Failed> failed = harness.Events<Session::Failed>();
    REQUIRE(failed.size() == 1);
    CHECK_THAT(failed[0].status.message(), Contains("shard 1 refused a message"));
  }
}

TEST_CASE("a founder that has let its weights go says so and leaves", "[client][given]") {
  FirstWeightsHarness harness;
  harness.FromCoordinator(harness.MakeView({0}));
  harness.BeginWork();
  harness.Forget();
  harness.FromCoordinator(harness.MakeFounderView(2));
  REQUIRE(harness.Events<Session::Failed>().size() == 1);
  CHECK(harness.Sent<Leave>() == 1);
}
