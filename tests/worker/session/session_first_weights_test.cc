// A worker that gives the job's first weights.
#include "common/wire/messages/assign.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

using namespace capstan;
using namespace capstan::client;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

// A session whose worker gives all tensors but the first; weight i is i.
class GivenBench : public SessionBench {
 public:
  explicit GivenBench(Mode mode = Mode::kSync, std::size_t blocks = 4)
      : SessionBench(mode, blocks), pool_(blocks * 16) {
    Declaration declaration = MakeDeclaration();
    for (std::size_t i = 1; i < declaration.catalog.size(); ++i) declaration.catalog[i].init.kind = InitKind::kGiven;
    declaration.given = pool_.Take();
    for (std::size_t i = 0; i < blocks * 4; ++i) declaration.given.As<float>()[i] = static_cast<float>(i);
    session->Declare(std::move(declaration), now, &joins_);
  }
  std::size_t weights_held() const { return pool_.in_use_bytes(); }
  View MakeFounderView(std::uint64_t generation = 1) {
    View view = MakeView({0}, generation);
    view.founder = true;
    return view;
  }
  std::vector<BlockIndex> AskedFor(ShardIndex shard) {
    std::vector<BlockIndex> blocks;
    for (const Assign& assign : TakeFor<Assign>(shard)) blocks.push_back(assign.block);
    return blocks;
  }
  void Acknowledge(ShardIndex shard, std::vector<BlockIndex> blocks) {
    FromShard(shard, Assigned{session->generation(), Incarnation{50 + shard}, shard, std::move(blocks), {}});
  }

 private:
  BufferPool pool_;
  Outbox joins_;
};

}  // namespace

TEST_CASE("a founder sends the blocks that are given to their shards, before it is asked for work", "[client][given]") {
  GivenBench bench;
  bench.FromCoordinator(bench.MakeFounderView());
  const std::vector<Assign> second = bench.TakeFor<Assign>(1);
  REQUIRE(second.size() == 2);
  CHECK(second[0].block == 1);
  CHECK(second[0].session == SessionId{7});
  CHECK(second[0].incarnation == Incarnation{51});
  const std::vector<float> values = {4, 5, 6, 7};
  CHECK(second[0].payload_hash == Hash64(std::as_bytes(std::span(values))));
  CHECK(bench.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK_THAT(bench.session->WaitingFor(), Contains("shard 0 at shard-0 (to take the first weights), shard 1"));
}

TEST_CASE("who is not the founder sends none", "[client][given]") {
  GivenBench bench;
  bench.FromCoordinator(bench.MakeView({0}));
  CHECK(bench.Sent<Assign>() == 0);
}

TEST_CASE("first weights go out a few blocks at a time", "[client][given]") {
  GivenBench bench(Mode::kSync, 20);
  bench.FromCoordinator(bench.MakeFounderView());
  CHECK(bench.AskedFor(1) == std::vector<BlockIndex>{1, 3, 5, 7});
  bench.Acknowledge(1, {3, 1});
  CHECK(bench.AskedFor(1) == std::vector<BlockIndex>{9, 11});
  bench.Acknowledge(1, {3, 1});  // no news
  CHECK(bench.AskedFor(1).empty());
}

TEST_CASE("first weights that nobody acknowledges are sent again", "[client][given]") {
  GivenBench bench;
  bench.FromCoordinator(bench.MakeFounderView());
  bench.Acknowledge(1, {1});
  bench.Forget();
  bench.Tick(10s);
  CHECK(bench.Sent<Assign>() == 0);
  bench.LoseAll();
  CHECK(bench.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK(bench.AskedFor(1) == std::vector<BlockIndex>{3});
  bench.Acknowledge(0, {2});
  bench.Acknowledge(1, {3});
  bench.Forget();
  bench.Tick(10s);
  CHECK(bench.Sent<Assign>() == 0);
  CHECK(bench.session->WaitingFor().empty());
}

TEST_CASE("a view that says it again asks for nothing again; a new generation asks for all", "[client][given]") {
  GivenBench bench;
  bench.FromCoordinator(bench.MakeFounderView());
  bench.Acknowledge(1, {1, 3});
  bench.Forget();
  bench.FromCoordinator(bench.MakeFounderView());
  CHECK(bench.Sent<Assign>() == 0);
  bench.FromCoordinator(bench.MakeFounderView(2));
  CHECK(bench.AskedFor(0) == std::vector<BlockIndex>{2});
  CHECK(bench.AskedFor(1) == std::vector<BlockIndex>{1, 3});
  bench.FromCoordinator(bench.MakeView({0}, 3));  // another worker's count
  bench.Forget();
  bench.Tick(10s);
  CHECK(bench.Sent<Assign>() == 0);
}

TEST_CASE("the weights stay until a round shows that they are kept", "[client][given]") {
  for (Mode mode : {Mode::kSync, Mode::kAsync}) {
    GivenBench bench(mode);
    bench.FromCoordinator(bench.MakeFounderView());
    bench.Acknowledge(0, {2});
    bench.Acknowledge(1, {1, 3});
    bench.Forget();
    CHECK(bench.weights_held() > 0);
    bench.Ready();
    Staged clocks = bench.MakeCoverage(0, 0);
    if (mode == Mode::kAsync) clocks.clocks = {0, 0, 0, 0};
    for (ShardIndex shard = 0; shard < SessionBench::kShards; ++shard) {
      clocks.incarnation = Incarnation{50 + shard};
      clocks.shard = shard;
      bench.FromShard(shard, clocks);
    }
    CHECK(bench.weights_held() > 0);
    bench.SendWeights(0, 0);
    CHECK(bench.Events<Session::WorkReady>().size() == 1);
    CHECK(bench.weights_held() == 0);
    View late = bench.MakeFounderView();
    bench.FromCoordinator(late);  // from before the first round
    CHECK(bench.Events<Session::Failed>().empty());
  }
}

TEST_CASE("a shard that refuses first weights ends the session, in every mode", "[client][given]") {
  for (Mode mode : {Mode::kSync, Mode::kAsync}) {
    GivenBench bench(mode);
    bench.FromCoordinator(bench.MakeFounderView());
    bench.FromShard(1, bench.MakeError(1, Code::kInvalid, 0));
    const std::vector<Session::Failed> failed = bench.Events<Session::Failed>();
    REQUIRE(failed.size() == 1);
    CHECK_THAT(failed[0].status.message(), Contains("shard 1 refused a message"));
  }
}

TEST_CASE("a founder that has let its weights go says so and leaves", "[client][given]") {
  GivenBench bench;
  bench.FromCoordinator(bench.MakeView({0}));
  bench.BeginWork();
  bench.Forget();
  bench.FromCoordinator(bench.MakeFounderView(2));
  REQUIRE(bench.Events<Session::Failed>().size() == 1);
  CHECK(bench.Sent<Leave>() == 1);
}
