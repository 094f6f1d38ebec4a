// Workers with a rank: each has its own slot, which no other worker gets.
#include "common/wire/messages/error.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

class RankHarness : public CoordinatorHarness {
 public:
  RankHarness() : CoordinatorHarness(2, 1) {  // one worker, two slots
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
  // Returns why this Join was refused; empty if it was not.
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
  RankHarness harness;
  const Join second = harness.JoinsAs("w1", 2);
  harness.Begin();
  CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK_THAT(harness.Waiting(), Contains("rank 0 of 2 (never seen)"));
  const Join first = harness.JoinsAs("w0", 1);
  CHECK(harness.ViewOf(first).slots == std::vector<SlotIndex>{0});
  CHECK(harness.Count<View>() == 0);  // nothing has changed for the second worker
  harness.Send(harness.PeerOf(second), harness.MakeHeartbeat(second));
  CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK(harness.Waiting().find("rank 0 of 2") == std::string::npos);
}

TEST_CASE("the slot of a rank that is lost is nobody's, and the job says whom it waits for", "[server][rank]") {
  RankHarness harness;
  const Join first = harness.JoinsAs("w0", 1), second = harness.JoinsAs("w1", 2);
  harness.Begin();
  harness.Pass(12s, {first});
  harness.Send(harness.PeerOf(first), harness.MakeHeartbeat(first));
  CHECK(harness.ViewOf(first).slots == std::vector<SlotIndex>{0});
  CHECK_THAT(harness.Waiting(), Contains("rank 1 of 2 (w1, lost 12 s ago)"));
  const Join other = harness.JoinsAs("w2", 2);  // another process may take the place of one that is gone
  CHECK(harness.ViewOf(other).slots == std::vector<SlotIndex>{1});
  CHECK(harness.Waiting().find("lost") == std::string::npos);
}

TEST_CASE("ranks must be as many as the job has slots, and below their number", "[server][rank]") {
  RankHarness harness;
  CHECK_THAT(harness.Refusal(harness.JoinsAs("w0", 1, 3)), Contains("rank 0 of 3, and the job has 2 slots"));
  CHECK_THAT(harness.Refusal(harness.JoinsAs("w0", 3, 2)), Contains("rank 2 of 2; ranks are from 0 to 1"));
  CHECK(harness.Refusal(harness.JoinsAs("w0", 2, 2)).empty());
}

TEST_CASE("two live processes do not have one rank; the newer one of a name takes over", "[server][rank]") {
  RankHarness harness;
  harness.JoinsAs("w0", 1);
  CHECK_THAT(harness.Refusal(harness.JoinsAs("w1", 1)), Contains("\"w1\" is rank 0 of 2, which \"w0\" is already"));
  const Join newer = harness.JoinsAs("w0", 1, 2, 2);
  CHECK(harness.Refusal(newer).empty());
  CHECK(harness.ViewOf(newer).slots == std::vector<SlotIndex>{0});
}

TEST_CASE("workers with and without a rank do not meet in one job", "[server][rank]") {
  RankHarness harness;
  SECTION("the first has one") {
    const Join first = harness.JoinsAs("w0", 1);
    CHECK_THAT(harness.Refusal(harness.Joins("w1")), Contains("\"w1\" has no rank, and \"w0\" has rank 0 of 2"));
    harness.Send(harness.PeerOf(first), harness.MakeLeave(first));
    CHECK_FALSE(harness.Refusal(harness.Joins("w1")).empty());  // the job still has ranks
  }
  SECTION("the first has none") {
    const Join first = harness.Joins("w0");
    CHECK_THAT(harness.Refusal(harness.JoinsAs("w1", 1)), Contains("\"w0\" has no rank"));
    harness.Send(harness.PeerOf(first), harness.MakeLeave(first));
    CHECK(harness.Refusal(harness.JoinsAs("w1", 1)).empty());
  }
}

TEST_CASE("a reader has no rank, and follows a job whose workers have", "[server][rank]") {
  RankHarness harness;
  harness.JoinsAs("w0", 1);
  Join reader = harness.MakeJoin("eval", 7);
  reader.catalog.clear();
  harness.Send(harness.PeerOf(reader), reader);
  CHECK(harness.Refusal(reader).empty());
  CHECK_FALSE(harness.ViewOf(reader).catalog.empty());
}

TEST_CASE("a slow rank has no helper", "[server][rank]") {
  RankHarness harness;
  const Join first = harness.JoinsAs("w0", 1), second = harness.JoinsAs("w1", 2);
  harness.Begin();
  for (int second_passed = 0; second_passed < 40; ++second_passed) {
    Heartbeat slow = harness.MakeHeartbeat(first), idle = harness.MakeHeartbeat(second);
    slow.generation = idle.generation = harness.coordinator->generation();
    slow.computing = true;
    harness.Send(harness.PeerOf(first), slow);
    harness.Send(harness.PeerOf(second), idle);
    harness.Tick(1s);
  }
  harness.Send(harness.PeerOf(second), harness.MakeHeartbeat(second));
  CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{1});
}

TEST_CASE("a coordinator that comes back learns the ranks again", "[server][rank]") {
  RankHarness harness;
  harness.JoinsAs("w0", 1);
  harness.JoinsAs("w1", 2);
  harness.Begin();
  harness.Live();
  harness.ShardsEchoTerm();
  const Join second = harness.JoinsAs("w1", 2);
  CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{1});
  CHECK_THAT(harness.Waiting(), Contains("rank 0 of 2 (never seen)"));
}
