#include "common/wire/messages/view.h"
#include "tests/catch.h"

#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;

namespace {

Beat BeatAt(CoordinatorBench& bench, const Join& join, std::uint64_t step, bool computing) {
  Beat beat = bench.MakeBeat(join);
  beat.generation = Generation{1};
  beat.step = Step{step};
  beat.computing = computing;
  return beat;
}

}  // namespace

TEST_CASE("a slow worker's slots are given to one that waits as well, for that step", "[server][coordinator]") {
  CoordinatorBench bench(1, 2);
  bench.Run();
  const Join fast = bench.Joins("w0"), slow = bench.Joins("w1");
  const std::size_t all = bench.config.slots();
  const auto pass = [&](std::uint64_t step, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      bench.Send(CoordinatorBench::PeerOf(fast), BeatAt(bench, fast, step + 1, false));
      bench.Send(CoordinatorBench::PeerOf(slow), BeatAt(bench, slow, step, true));
      bench.Tick(std::chrono::seconds(1));
    }
  };
  pass(0, 25);
  CHECK(bench.ViewOf(fast).slots.size() < all);
  pass(0, 10);
  CHECK(bench.ViewOf(fast).slots.size() == all);
  CHECK(bench.ViewOf(slow).slots.size() < all);
  CHECK(bench.metrics->slots_backed_up.value() == all / 2);
  bench.DoStep(0);
  pass(1, 1);
  CHECK(bench.ViewOf(fast).slots.size() < all);
}

TEST_CASE("one that has no slots is the first to compute a slow worker's as well", "[server][coordinator]") {
  CoordinatorBench bench(1, 2);
  bench.Run();
  const Join fast = bench.Joins("w0"), slow = bench.Joins("w1"), spare = bench.Joins("w2");
  REQUIRE(bench.ViewOf(spare).slots.empty());
  const SlotIndex of_slow = bench.ViewOf(slow).slots.at(0);
  bench.DoStep(0);
  for (int i = 0; i < 35; ++i) {
    bench.Send(CoordinatorBench::PeerOf(spare), BeatAt(bench, spare, 0, false));
    bench.Send(CoordinatorBench::PeerOf(fast), BeatAt(bench, fast, 2, false));
    bench.Send(CoordinatorBench::PeerOf(slow), BeatAt(bench, slow, 1, true));
    bench.Tick(std::chrono::seconds(1));
  }
  CHECK(bench.ViewOf(spare).slots == std::vector<SlotIndex>{of_slow});
}
