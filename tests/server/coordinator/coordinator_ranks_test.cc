// Workers with a rank: each has its own slot, which no other worker gets.
#include "common/wire/messages/error.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

class RankBench : public CoordinatorBench {
 public:
  RankBench() : CoordinatorBench(2, 1) {  // one worker, two slots
    Live();
    ShardsEchoTerm();
  }
  Join JoinsAs(const std::string& name, std::uint32_t rank, std::uint32_t ranks = 2, std::uint64_t nonce = 1) {
    Join join = MakeJoin(name, nonce);
    join.rank = rank;
    join.ranks = ranks;
    Send(PeerOf(join), join);
    return join;
  }
  void Begin() {
    for (ShardIndex i = 0; i < shards.size(); ++i) AnswerReset(i);
  }
  // Returns why it was refused; empty: it was not.
  std::string Refusal(const Join& join) {
    const std::vector<Error> errors = Take<Error>(PeerOf(join));
    if (errors.empty()) return "";
    CHECK(errors.back().code == Code::kRefused);
    return errors.back().message;
  }
  std::string Waiting() const { return coordinator->WaitingFor(now); }
};

}  // namespace

TEST_CASE("a worker with a rank gets its slot, and no other while others are missing", "[server][rank]") {
  RankBench bench;
  const Join second = bench.JoinsAs("w1", 2);
  bench.Begin();
  CHECK(bench.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK_THAT(bench.Waiting(), Contains("rank 0 of 2 (never seen)"));
  const Join first = bench.JoinsAs("w0", 1);
  CHECK(bench.ViewOf(first).slots == std::vector<SlotIndex>{0});
  CHECK(bench.Count<View>() == 0);  // nothing has changed for the second worker
  bench.Send(bench.PeerOf(second), bench.MakeBeat(second));
  CHECK(bench.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK(bench.Waiting().find("rank 0 of 2") == std::string::npos);
}

TEST_CASE("the slot of a rank that is lost is nobody's, and the job says whom it waits for", "[server][rank]") {
  RankBench bench;
  const Join first = bench.JoinsAs("w0", 1), second = bench.JoinsAs("w1", 2);
  bench.Begin();
  bench.Pass(12s, {first});
  bench.Send(bench.PeerOf(first), bench.MakeBeat(first));
  CHECK(bench.ViewOf(first).slots == std::vector<SlotIndex>{0});
  CHECK_THAT(bench.Waiting(), Contains("rank 1 of 2 (w1, lost 12 s ago)"));
  const Join other = bench.JoinsAs("w2", 2);  // another process may take the place of one that is gone
  CHECK(bench.ViewOf(other).slots == std::vector<SlotIndex>{1});
  CHECK(bench.Waiting().find("lost") == std::string::npos);
}

TEST_CASE("ranks must be as many as the job has slots, and below their number", "[server][rank]") {
  RankBench bench;
  CHECK_THAT(bench.Refusal(bench.JoinsAs("w0", 1, 3)), Contains("rank 0 of 3, and the job has 2 slots"));
  CHECK_THAT(bench.Refusal(bench.JoinsAs("w0", 3, 2)), Contains("rank 2 of 2; ranks are from 0 to 1"));
  CHECK(bench.Refusal(bench.JoinsAs("w0", 2, 2)).empty());
}

TEST_CASE("two live processes do not have one rank; the newer one of a name takes over", "[server][rank]") {
  RankBench bench;
  bench.JoinsAs("w0", 1);
  CHECK_THAT(bench.Refusal(bench.JoinsAs("w1", 1)), Contains("\"w1\" is rank 0 of 2, which \"w0\" is already"));
  const Join newer = bench.JoinsAs("w0", 1, 2, 2);
  CHECK(bench.Refusal(newer).empty());
  CHECK(bench.ViewOf(newer).slots == std::vector<SlotIndex>{0});
}

TEST_CASE("workers with and without a rank do not meet in one job", "[server][rank]") {
  RankBench bench;
  SECTION("the first has one") {
    const Join first = bench.JoinsAs("w0", 1);
    CHECK_THAT(bench.Refusal(bench.Joins("w1")), Contains("\"w1\" has no rank, and \"w0\" has rank 0 of 2"));
    bench.Send(bench.PeerOf(first), bench.MakeLeave(first));
    CHECK_FALSE(bench.Refusal(bench.Joins("w1")).empty());  // its slot stays its own
  }
  SECTION("the first has none") {
    const Join first = bench.Joins("w0");
    CHECK_THAT(bench.Refusal(bench.JoinsAs("w1", 1)), Contains("\"w0\" has no rank"));
    bench.Send(bench.PeerOf(first), bench.MakeLeave(first));
    CHECK(bench.Refusal(bench.JoinsAs("w1", 1)).empty());
  }
}

TEST_CASE("a reader has no rank, and follows a job whose workers have", "[server][rank]") {
  RankBench bench;
  bench.JoinsAs("w0", 1);
  Join reader = bench.MakeJoin("eval", 7);
  reader.catalog.clear();
  bench.Send(bench.PeerOf(reader), reader);
  CHECK(bench.Refusal(reader).empty());
  CHECK_FALSE(bench.ViewOf(reader).catalog.empty());
}

TEST_CASE("a slow rank has no helper", "[server][rank]") {
  RankBench bench;
  const Join first = bench.JoinsAs("w0", 1), second = bench.JoinsAs("w1", 2);
  bench.Begin();
  for (int second_passed = 0; second_passed < 40; ++second_passed) {
    Beat slow = bench.MakeBeat(first), idle = bench.MakeBeat(second);
    slow.generation = idle.generation = bench.coordinator->generation();
    slow.computing = true;
    bench.Send(bench.PeerOf(first), slow);
    bench.Send(bench.PeerOf(second), idle);
    bench.Tick(1s);
  }
  bench.Send(bench.PeerOf(second), bench.MakeBeat(second));
  CHECK(bench.ViewOf(second).slots == std::vector<SlotIndex>{1});
}

TEST_CASE("a coordinator that comes back learns the ranks again", "[server][rank]") {
  RankBench bench;
  bench.JoinsAs("w0", 1);
  bench.JoinsAs("w1", 2);
  bench.Begin();
  bench.Live();
  bench.ShardsEchoTerm();
  const Join second = bench.JoinsAs("w1", 2);
  CHECK(bench.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK_THAT(bench.Waiting(), Contains("rank 0 of 2 (never seen)"));
}
