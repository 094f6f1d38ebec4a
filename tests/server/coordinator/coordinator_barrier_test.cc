// Workers that wait at a barrier: for whom they wait, when they continue, and the effect of a coordinator's restart.
#include "common/config/job/cluster_section.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;

namespace {

class BarrierHarness : public CoordinatorHarness {
 public:
  explicit BarrierHarness(std::uint32_t workers = 2) : CoordinatorHarness(2, workers) {}
  void Begin() {
    Live();
    ShardsEchoTerm();
  }
  Join JoinsAs(const std::string& name, std::uint32_t rank) {
    Join join = MakeJoin(name);
    join.rank = rank;
    join.ranks = 2;
    Send(PeerOf(join), join);
    return join;
  }
  // Sends a Heartbeat of a worker that waits in barrier `number`; returns the worker's newest view.
  View Waits(const Join& join, std::uint64_t number) {
    Heartbeat beat = MakeHeartbeat(join);
    beat.barrier = number;
    Send(PeerOf(join), beat);
    return ViewOf(join);
  }
};

}  // namespace

TEST_CASE("a barrier is passed when every member waits, and all hear it at once", "[server][barrier]") {
  BarrierHarness harness;
  harness.Run();
  const Join first = harness.Joins("w0"), second = harness.Joins("w1");  // they join again, to get their views
  View view = harness.Waits(first, 1);
  CHECK(view.barrier == 0);
  CHECK(view.message == "w1");
  CHECK(harness.Waits(second, 0).message.empty());  // only waiting workers are notified
  const std::uint64_t before = view.sequence;
  CHECK(harness.Waits(second, 1).barrier == 1);
  view = harness.ViewOf(first);  // w0 has sent nothing since
  CHECK(view.barrier == 1);
  CHECK(view.message.empty());
  CHECK(view.sequence > before);
  CHECK(harness.Waits(first, 1).barrier == 1);  // repeated: that barrier is over, and this is no wait for the next one
  view = harness.Waits(second, 2);
  CHECK(view.message == "w0");
  CHECK(view.barrier == 1);
}

TEST_CASE("whoever has left or is lost is not waited for any more", "[server][barrier]") {
  BarrierHarness harness;
  harness.config.cluster.min_workers = 1;
  harness.Run();
  const Join first = harness.Joins("w0"), second = harness.Joins("w1");
  harness.Pass(harness.coordinator->lease(), {first, second});  // an earlier member would have come back by now
  CHECK(harness.Waits(first, 1).message == "w1");
  SECTION("left") {
    harness.Send(harness.PeerOf(second), harness.MakeLeave(second));
    harness.Tick(100ms);
    CHECK(harness.ViewOf(first).barrier == 1);  // without another Heartbeat
  }
  SECTION("lost") {
    for (int i = 0; i < 24; ++i) {
      harness.Waits(first, 1);
      harness.Tick(500ms);
    }
    CHECK(harness.Waits(first, 1).barrier == 1);
  }
}

TEST_CASE("fewer than min_workers do not pass a barrier", "[server][barrier]") {
  BarrierHarness harness(3);
  harness.config.cluster.min_workers = 2;
  harness.Begin();
  const Join first = harness.Joins("w0");
  CHECK(harness.Waits(first, 1).message == "2 of 3 workers (not joined)");  // the third may still come
  harness.Pass(harness.coordinator->lease(), {first});
  CHECK(harness.Waits(first, 1).message == "1 of 2 workers (not joined)");
  const Join second = harness.Joins("w1");
  CHECK(harness.Waits(second, 1).barrier == 1);
}

TEST_CASE("of a job with ranks every rank is waited for, seen or not", "[server][barrier][rank]") {
  BarrierHarness harness(1);
  harness.Begin();
  const Join second = harness.JoinsAs("w1", 2);
  CHECK(harness.Waits(second, 1).message == "rank 0 of 2 (never seen)");
  harness.Pass(harness.coordinator->lease(), {second});
  CHECK(harness.Waits(second, 1).barrier == 0);
  const Join first = harness.JoinsAs("w0", 1);
  CHECK(harness.Waits(second, 1).message == "w0");
  CHECK(harness.Waits(first, 1).barrier == 1);
}

TEST_CASE("a coordinator that comes back passes all that still wait, by whatever numbers", "[server][barrier]") {
  BarrierHarness harness;
  harness.config.cluster.min_workers = 1;
  harness.Run();
  harness.Live();
  harness.ShardsEchoTerm();
  const Join first = harness.Joins("w0");
  CHECK(harness.Waits(first, 7).barrier == 0);  // w1 has not come back yet, though min_workers is 1
  const Join second = harness.Joins("w1");
  CHECK(harness.Waits(second, 1).barrier == 7);
  CHECK(harness.ViewOf(first).barrier == 7);
}

TEST_CASE("many that are missing are counted", "[server][barrier]") {
  BarrierHarness harness(11);
  harness.Begin();
  const Join last = harness.Joins("wa");
  for (char name = 'b'; name <= 'k'; ++name) harness.Joins(std::string("w") + name);
  CHECK(harness.Waits(last, 1).message == "wb, wc, wd, we, wf, wg, wh, wi, 2 more workers");
}
