// Workers with a rank: each has its own slot, which no other worker gets.
#include "common/config/job/cluster_section.h"
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

TEST_CASE("of two living processes with one rank the second waits, and takes it when the first has ended",
          "[server][rank]") {
  RankHarness harness;
  const Join first = harness.JoinsAs("w0", 1);
  harness.Forget();
  const Join second = harness.JoinsAs(GENERATE("w0", "w1"), 1, 2, 2);
  const std::vector<Error> errors = harness.Take<Error>(harness.PeerOf(second));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kBusy);
  CHECK_THAT(errors[0].message, Contains("is rank 0 of 2, which \"w0\" is already"));
  CHECK(harness.Take<View>(harness.PeerOf(first)).size() == 1);  // is it there?
  CHECK(harness.coordinator->worker_count() == 1);
  harness.Gone(harness.PeerOf(first));
  CHECK(harness.Take<Error>(harness.PeerOf(second)).at(0).code == Code::kStale);  // it joins again at once
  CHECK(harness.coordinator->worker_count() == 0);
  harness.Send(harness.PeerOf(second), second);
  CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{0});
}

TEST_CASE("of two living processes with one rank the second gets it if the first delivers nothing", "[server][rank]") {
  RankHarness harness;
  const Join first = harness.JoinsAs("x", 1), other = harness.JoinsAs("w1", 2);
  harness.Begin();
  Join second = harness.MakeJoin("w0", 2);
  second.rank = 1;
  second.ranks = 2;
  SECTION("it only beats") {
    for (int i = 0; i < 40; ++i) {
      harness.Send(harness.PeerOf(second), second);  // as often as it is told to wait
      harness.Pass(1s, {first, other});
    }
    CHECK_THAT(harness.Notices(), Contains("\"x\" delivers nothing, and another process takes its place"));
    CHECK(harness.ViewOf(second).slots == std::vector<SlotIndex>{0});
    harness.Send(harness.PeerOf(first), harness.MakeHeartbeat(first));
    CHECK(harness.Take<Error>(harness.PeerOf(first)).at(0).code == Code::kStale);  // it is not ended: it may wait, too
  }
  SECTION("it delivers") {
    harness.DoStep(0);
    harness.DoStep(1);
    harness.Send(harness.PeerOf(second), second);
    harness.Take<Error>(harness.PeerOf(second));
    harness.Send(harness.PeerOf(first), harness.MakeHeartbeat(first));
    CHECK_THAT(harness.Refusal(second), Contains("\"x\" has this rank, and computes"));
  }
}

TEST_CASE("a job that gathers does not wait for good for one that has another's rank", "[server][rank]") {
  RankHarness harness;
  harness.config.cluster.workers = 2;
  harness.Live();
  harness.ShardsEchoTerm();
  Join stranger = harness.MakeJoin("x");
  stranger.rank = 1;
  stranger.ranks = 2;
  stranger.catalog.pop_back();  // it declares another job
  harness.Send(harness.PeerOf(stranger), stranger);
  const Join w1 = harness.JoinsAs("w1", 2), w0 = harness.JoinsAs("w0", 1);
  harness.Pass(12s, {stranger, w1});
  CHECK(harness.coordinator->catalog() == nullptr);
  harness.Send(harness.PeerOf(w0), w0);
  CHECK(harness.coordinator->catalog() != nullptr);
}

TEST_CASE("a stranger with a rank locks no workers without one out", "[server][rank]") {
  RankHarness harness;
  const Join stranger = harness.JoinsAs("x", 1);
  const Join w0 = harness.Joins("w0");
  CHECK(harness.Refusal(w0).empty());
  CHECK_THAT(harness.Notices(), Contains("\"w0\" has no rank, and \"x\" has rank 0 of 2"));
  CHECK(harness.ViewOf(w0).slots.empty());
  SECTION("more have none") {
    const Join w1 = harness.Joins("w1");
    CHECK(harness.ViewOf(w0).slots.size() + harness.ViewOf(w1).slots.size() == 2);
  }
  SECTION("it leaves") {
    harness.Send(harness.PeerOf(stranger), harness.MakeLeave(stranger));
    CHECK(harness.ViewOf(w0).slots.size() == 2);
    CHECK(harness.Waiting().find("rank") == std::string::npos);
  }
  SECTION("it is lost") {
    harness.Pass(12s, {w0});
    harness.Send(harness.PeerOf(w0), harness.MakeHeartbeat(w0));
    CHECK(harness.ViewOf(w0).slots.size() == 2);
  }
}

TEST_CASE("a stranger without a rank locks no workers with one out", "[server][rank]") {
  RankHarness harness;
  harness.Joins("x");
  const Join w0 = harness.JoinsAs("w0", 1);
  CHECK(harness.Refusal(w0).empty());
  CHECK_THAT(harness.Notices(), Contains("\"w0\" has rank 0 of 2, and \"x\" has no rank"));
  const Join w1 = harness.JoinsAs("w1", 2);
  harness.Send(harness.PeerOf(w0), harness.MakeHeartbeat(w0));
  CHECK(harness.ViewOf(w0).slots == std::vector<SlotIndex>{0});
  CHECK(harness.ViewOf(w1).slots == std::vector<SlotIndex>{1});
}

TEST_CASE("where workers deliver, one that has a rank, or has none, unlike them is refused", "[server][rank]") {
  RankHarness harness;
  const bool ranked = GENERATE(false, true);
  harness.JoinsAs("w0", ranked ? 1 : 0);
  harness.JoinsAs("w1", ranked ? 2 : 0);
  harness.Begin();
  harness.DoStep(0);
  harness.DoStep(1);
  const std::string refusal = harness.Refusal(harness.JoinsAs("x", ranked ? 0 : 1));
  CHECK_THAT(refusal, Contains(ranked ? "\"x\" has no rank, and \"w0\" has rank 0 of 2"
                                      : "\"x\" has rank 0 of 2, and \"w0\" has no rank"));
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
