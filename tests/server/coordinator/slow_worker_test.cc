#include "common/wire/messages/view.h"
#include "tests/catch.h"

#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;

TEST_CASE("a slow worker's slots are given to one that waits as well, for that step", "[server][coordinator]") {
  CoordinatorHarness harness(1, 2);
  harness.Run();
  const Join fast = harness.Joins("w0"), slow = harness.Joins("w1");
  const std::size_t all = harness.config.slots();
  const auto pass = [&](std::uint64_t step, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      harness.Send(CoordinatorHarness::PeerOf(fast), harness.MakeHeartbeat(fast, step + 1, false));
      harness.Send(CoordinatorHarness::PeerOf(slow), harness.MakeHeartbeat(slow, step, true));
      harness.Tick(std::chrono::seconds(1));
    }
  };
  pass(0, 25);
  CHECK(harness.ViewOf(fast).slots.size() < all);
  pass(0, 10);
  CHECK(harness.ViewOf(fast).slots.size() == all);
  CHECK(harness.ViewOf(slow).slots.size() < all);
  CHECK(harness.metrics->slots_backed_up.value() == all / 2);
  harness.DoStep(0);
  pass(1, 1);
  CHECK(harness.ViewOf(fast).slots.size() < all);
}

TEST_CASE("one that has no slots is the first to compute a slow worker's as well", "[server][coordinator]") {
  CoordinatorHarness harness(1, 2);
  harness.Run();
  const Join fast = harness.Joins("w0"), slow = harness.Joins("w1"), spare = harness.Joins("w2");
  REQUIRE(harness.ViewOf(spare).slots.empty());
  const SlotIndex of_slow = harness.ViewOf(slow).slots.at(0);
  harness.DoStep(0);
  for (int i = 0; i < 35; ++i) {
    harness.Send(CoordinatorHarness::PeerOf(spare), harness.MakeHeartbeat(spare, 0, false));
    harness.Send(CoordinatorHarness::PeerOf(fast), harness.MakeHeartbeat(fast, 2, false));
    harness.Send(CoordinatorHarness::PeerOf(slow), harness.MakeHeartbeat(slow, 1, true));
    harness.Tick(std::chrono::seconds(1));
  }
  CHECK(harness.ViewOf(spare).slots == std::vector<SlotIndex>{of_slow});
}
