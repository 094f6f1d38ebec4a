// A session in a barrier: the number it waits for, the events it gets meanwhile, and when it continues.
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::seconds;

View Passed(View view, std::uint64_t barrier, std::string missing = "") {
  view.barrier = barrier;
  view.message = std::move(missing);
  return view;
}

TEST_CASE("a session waits for the barrier after the newest, and says so at once and with every beat",
          "[client][barrier]") {
  SessionBench bench;
  bench.Join({0}).FromCoordinator(Passed(bench.MakeView({0}), 4));
  bench.Barrier();
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 5);
  bench.Barrier();  // again: the same barrier
  bench.Tick(seconds(1));
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 5);
  CHECK(bench.NoEvents());
  bench.FromCoordinator(Passed(bench.MakeView({0}), 5));
  CHECK(bench.Events<Session::BarrierPassed>().size() == 1);
  bench.Tick(seconds(1));
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 0);
  bench.Barrier();
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 6);
}

TEST_CASE("whom a barrier waits for is told when it changes", "[client][barrier]") {
  SessionBench bench;
  bench.Join({0}).Barrier();
  for (const char* missing : {"w1, w2", "w1, w2", "w2"}) {
    bench.FromCoordinator(Passed(bench.MakeView({0}), 0, missing));
  }
  const auto waits = bench.Events<Session::BarrierWaits>();
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].missing == "w1, w2");
  CHECK(waits[1].missing == "w2");
  CHECK(bench.session->WaitingFor().find("w2 in a barrier") != std::string::npos);
}

TEST_CASE("a barrier called before a session is given gets its number from the first view", "[client][barrier]") {
  SessionBench bench;
  bench.Declare();
  bench.Barrier();
  CHECK(bench.Take<Beat>(kCoordinator).empty());
  bench.FromCoordinator(Passed(bench.MakeView({0}), 3));
  CHECK(bench.Events<Session::BarrierPassed>().empty());
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 4);
}

TEST_CASE("a new coordinator, which has passed none, is told the same number until it passes", "[client][barrier]") {
  SessionBench bench;
  bench.Join({0}).FromCoordinator(Passed(bench.MakeView({0}), 4));
  bench.Barrier();
  bench.Forget();
  View anew = Passed(bench.MakeView({0}), 0);
  anew.term = Term{2};
  bench.FromCoordinator(anew);
  bench.Tick(seconds(1));
  CHECK(bench.Take<Beat>(kCoordinator).at(0).barrier == 5);
  anew.sequence += 1;
  anew.barrier = 9;  // another one waited for that
  bench.FromCoordinator(anew);
  CHECK(bench.Events<Session::BarrierPassed>().size() == 1);
}

TEST_CASE("a barrier in a round leaves the round alone", "[client][barrier]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Barrier();
  bench.FromCoordinator(Passed(bench.MakeView({0}), 1));
  CHECK(bench.Events<Session::BarrierPassed>().size() == 1);
  CHECK(bench.Events<Session::WorkVoid>().empty());
  bench.Forget();
  bench.PushAll(work, {0, 1});
  CHECK(bench.Sent<capstan::Push>() == 4);
}

}  // namespace
}  // namespace capstan::client
