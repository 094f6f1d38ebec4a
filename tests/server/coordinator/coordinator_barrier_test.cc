// Workers that wait at a barrier: for whom they wait, when they continue, and the effect of a coordinator's restart.
#include "common/config/job/cluster_section.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;

namespace {

class BarrierBench : public CoordinatorBench {
 public:
  explicit BarrierBench(std::uint32_t workers = 2) : CoordinatorBench(2, workers) {}
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
  // Sends a Beat that waits for barrier `number`; returns the newest view.
  View Waits(const Join& join, std::uint64_t number) {
    Beat beat = MakeBeat(join);
    beat.barrier = number;
    Send(PeerOf(join), beat);
    return ViewOf(join);
  }
};

}  // namespace

TEST_CASE("a barrier is passed when every member waits, and all hear it at once", "[server][barrier]") {
  BarrierBench bench;
  bench.Run();
  const Join first = bench.Joins("w0"), second = bench.Joins("w1");  // again: their views
  View view = bench.Waits(first, 1);
  CHECK(view.barrier == 0);
  CHECK(view.message == "w1");
  CHECK(bench.Waits(second, 0).message.empty());  // only waiting workers are notified
  const std::uint64_t before = view.sequence;
  CHECK(bench.Waits(second, 1).barrier == 1);
  view = bench.ViewOf(first);  // without a message
  CHECK(view.barrier == 1);
  CHECK(view.message.empty());
  CHECK(view.sequence > before);
  CHECK(bench.Waits(first, 1).barrier == 1);  // repeated: that barrier is over, and this is no wait for the next one
  view = bench.Waits(second, 2);
  CHECK(view.message == "w0");
  CHECK(view.barrier == 1);
}

TEST_CASE("whoever has left or is lost is not waited for any more", "[server][barrier]") {
  BarrierBench bench;
  bench.config.cluster.min_workers = 1;
  bench.Run();
  const Join first = bench.Joins("w0"), second = bench.Joins("w1");
  bench.Pass(bench.coordinator->lease(), {first, second});  // an earlier member would have come back by now
  CHECK(bench.Waits(first, 1).message == "w1");
  SECTION("left") {
    bench.Send(bench.PeerOf(second), bench.MakeLeave(second));
    bench.Tick(100ms);
    CHECK(bench.ViewOf(first).barrier == 1);  // without a beat
  }
  SECTION("lost") {
    for (int i = 0; i < 24; ++i) {
      bench.Waits(first, 1);
      bench.Tick(500ms);
    }
    CHECK(bench.Waits(first, 1).barrier == 1);
  }
}

TEST_CASE("fewer than min_workers do not pass a barrier", "[server][barrier]") {
  BarrierBench bench(3);
  bench.config.cluster.min_workers = 2;
  bench.Begin();
  const Join first = bench.Joins("w0");
  CHECK(bench.Waits(first, 1).message == "2 of 3 workers (not joined)");  // the third may still come
  bench.Pass(bench.coordinator->lease(), {first});
  CHECK(bench.Waits(first, 1).message == "1 of 2 workers (not joined)");
  const Join second = bench.Joins("w1");
  CHECK(bench.Waits(second, 1).barrier == 1);
}

TEST_CASE("of a job with ranks every rank is waited for, seen or not", "[server][barrier][rank]") {
  BarrierBench bench(1);
  bench.Begin();
  const Join second = bench.JoinsAs("w1", 2);
  CHECK(bench.Waits(second, 1).message == "rank 0 of 2 (never seen)");
  bench.Pass(bench.coordinator->lease(), {second});
  CHECK(bench.Waits(second, 1).barrier == 0);
  const Join first = bench.JoinsAs("w0", 1);
  CHECK(bench.Waits(second, 1).message == "w0");
  CHECK(bench.Waits(first, 1).barrier == 1);
}

TEST_CASE("a coordinator that comes back passes all that still wait, by whatever numbers", "[server][barrier]") {
  BarrierBench bench;
  bench.config.cluster.min_workers = 1;
  bench.Run();
  bench.Live();
  bench.ShardsEchoTerm();
  const Join first = bench.Joins("w0");
  CHECK(bench.Waits(first, 7).barrier == 0);  // the other one has not come back yet, though one would suffice
  const Join second = bench.Joins("w1");
  CHECK(bench.Waits(second, 1).barrier == 7);
  CHECK(bench.ViewOf(first).barrier == 7);
}

TEST_CASE("many that are missing are counted", "[server][barrier]") {
  BarrierBench bench(11);
  bench.Begin();
  const Join last = bench.Joins("wa");
  for (char name = 'b'; name <= 'k'; ++name) bench.Joins(std::string("w") + name);
  CHECK(bench.Waits(last, 1).message == "wb, wc, wd, we, wf, wg, wh, wi, 2 more workers");
}
