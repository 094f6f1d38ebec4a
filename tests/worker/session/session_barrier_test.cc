// A session that waits in a barrier: the barrier's number in its Heartbeats, its events, and when the wait ends.
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;

View Passed(View view, std::uint64_t barrier, std::string missing = "") {
  view.barrier = barrier;
  view.message = std::move(missing);
  return view;
}

TEST_CASE("a session waits for the barrier after the newest, and says so at once and with every beat",
          "[client][barrier]") {
  SessionHarness harness;
  harness.Join({0}).FromCoordinator(Passed(harness.MakeView({0}), 4));
  harness.Barrier();
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 5);
  harness.Barrier();  // again: the same barrier
  harness.Tick(seconds(1));
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 5);
  CHECK(harness.NoEvents());
  harness.FromCoordinator(Passed(harness.MakeView({0}), 5));
  CHECK(harness.Events<Session::BarrierPassed>().size() == 1);
  harness.Tick(seconds(1));
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 0);
  harness.Barrier();
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 6);
}

TEST_CASE("whom a barrier waits for is told when it changes", "[client][barrier]") {
  SessionHarness harness;
  harness.Join({0}).Barrier();
  for (const char* missing : {"w1, w2", "w1, w2", "w2"}) {
    harness.FromCoordinator(Passed(harness.MakeView({0}), 0, missing));
  }
  const auto waits = harness.Events<Session::BarrierWaits>();
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].missing == "w1, w2");
  CHECK(waits[1].missing == "w2");
  CHECK(harness.session->WaitingFor().find("w2 in a barrier") != std::string::npos);
}

TEST_CASE("a barrier called before a session is given gets its number from the first view", "[client][barrier]") {
  SessionHarness harness;
  harness.Declare();
  harness.Barrier();
  CHECK(harness.Take<Heartbeat>(kCoordinator).empty());
  harness.FromCoordinator(Passed(harness.MakeView({0}), 3));
  CHECK(harness.Events<Session::BarrierPassed>().empty());
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 4);
}

TEST_CASE("a new coordinator, which has passed none, is told the same number until it passes", "[client][barrier]") {
  SessionHarness harness;
  harness.Join({0}).FromCoordinator(Passed(harness.MakeView({0}), 4));
  harness.Barrier();
  harness.Forget();
  View again = Passed(harness.MakeView({0}), 0);
  again.term = Term{2};
  harness.FromCoordinator(again);
  harness.Tick(seconds(1));
  CHECK(harness.Take<Heartbeat>(kCoordinator).at(0).barrier == 5);
  again.sequence += 1;
  again.barrier = 9;  // more barriers have been passed
  harness.FromCoordinator(again);
  CHECK(harness.Events<Session::BarrierPassed>().size() == 1);
}

TEST_CASE("a barrier in a round leaves the round alone", "[client][barrier]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Barrier();
  harness.FromCoordinator(Passed(harness.MakeView({0}), 1));
  CHECK(harness.Events<Session::BarrierPassed>().size() == 1);
  CHECK(harness.Events<Session::WorkVoid>().empty());
  harness.Forget();
  harness.PushAll(work, {0, 1});
  CHECK(harness.Sent<capstan::Push>() == 4);
}

}  // namespace
}  // namespace capstan::session
