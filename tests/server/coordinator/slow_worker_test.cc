// Workers for which others wait: who is left out, who gets the slots, and who is tried again.
#include <map>

#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

// A job of one shard and four slots. Workers say what the test has them say, once a second.
class WaitingJob : public CoordinatorHarness {
 public:
  explicit WaitingJob(std::uint32_t workers, Mode mode = Mode::kSync) : CoordinatorHarness(1, workers, mode) {
    config.job.slots = config.job.global_batch = 4;
    config.job.steps = 100;
    Run();
    for (std::uint32_t i = 0; i < workers; ++i) Joins("w" + std::to_string(i));
  }
  // `computing` 0: the worker says that it has done the step under way; 1: that it computes it; 2: it only beats.
  void Says(const Join& join, int computing) {
    NewestView(join);
    Heartbeat beat = MakeHeartbeat(join);
    if (computing != 2) beat.generation = coordinator->generation();
    if (computing != 2) beat.step = coordinator->step();
    beat.computing = computing == 1;
    Send(PeerOf(join), beat);
  }
  void Pass(int seconds, const std::vector<std::pair<Join, int>>& workers) {
    for (int i = 0; i < seconds; ++i) {
      for (const auto& [join, computing] : workers) Says(join, computing);
      SendHello(0);
      Tick(1s);
    }
  }
  // Returns the newest view sent to a worker.
  const View& NewestView(const Join& join) {
    View& newest = views_[join.worker];
    if (View view = ViewOf(join); view.session.value != 0) newest = std::move(view);
    return newest;
  }
  std::size_t SlotsOf(const Join& join) { return NewestView(join).slots.size(); }
  std::uint64_t LeftOut() const { return metrics->workers_left_out.value(); }

 private:
  std::map<std::string, View> views_;
};

}  // namespace

TEST_CASE("a worker that has kept others waiting is left out: they get its slots, and it is tried again later",
          "[server][late]") {
  WaitingJob harness(2);
  const Join fast = harness.MakeJoin("w0"), slow = harness.MakeJoin("w1");
  harness.DoStep(0);
  harness.Pass(29, {{fast, 0}, {slow, 1}});
  CHECK(harness.SlotsOf(fast) == 2);
  harness.Pass(3, {{fast, 0}, {slow, 1}});
  CHECK(harness.SlotsOf(fast) == 4);
  CHECK(harness.SlotsOf(slow) == 0);
  CHECK(harness.LeftOut() == 1);
  CHECK_THAT(harness.Notices(), Contains("\"w1\" is left out, because others have waited for it: it has not done step 1"));
  CHECK_THAT(harness.NewestView(slow).notice, Contains("gets no slots for a while"));
  harness.DoStep(1);
  harness.Pass(20, {{fast, 1}, {slow, 1}});
  CHECK(harness.SlotsOf(slow) == 0);
  harness.Pass(30, {{fast, 1}, {slow, 1}});
  CHECK(harness.SlotsOf(slow) == 0);  // it hangs still
  harness.Pass(2, {{fast, 1}, {slow, 0}});
  CHECK(harness.SlotsOf(slow) == 2);
  CHECK_THAT(harness.Notices(), Contains("\"w1\" may have slots again"));
}

TEST_CASE("nobody is left out while all compute, or while nobody has waited for long", "[server][late]") {
  WaitingJob harness(3);
  const Join a = harness.MakeJoin("w0"), b = harness.MakeJoin("w1"), c = harness.MakeJoin("w2");
  harness.Pass(100, {{a, 1}, {b, 1}, {c, 1}});
  harness.Pass(20, {{a, 0}, {b, 1}, {c, 1}});
  CHECK(harness.LeftOut() == 0);
}

TEST_CASE("a worker without a slot takes the place of one that hangs", "[server][late]") {
  WaitingJob harness(5);
  const Join spare = harness.MakeJoin("w4");
  REQUIRE(harness.SlotsOf(spare) == 0);
  const Join slow = harness.MakeJoin("w0");
  harness.Pass(35, {{harness.MakeJoin("w1"), 1}, {harness.MakeJoin("w2"), 1}, {harness.MakeJoin("w3"), 1}, {spare, 0},
                    {slow, 1}});
  CHECK(harness.SlotsOf(spare) > 0);
}

TEST_CASE("strangers that only beat are left out, and honest workers go on with all slots", "[server][late]") {
  const int says = GENERATE(0, 1, 2);  // that it has done all, that it computes, or nothing of its step
  WaitingJob harness(2);
  const Join w0 = harness.MakeJoin("w0"), w1 = harness.MakeJoin("w1");
  for (std::uint64_t step = 0; step < 2; ++step) harness.DoStep(step);
  std::vector<std::pair<Join, int>> all = {{w0, 0}, {w1, 0}};
  for (const char* name : {"x", "y"}) all.emplace_back(harness.Joins(name), says);
  harness.Pass(32, all);
  CHECK(harness.SlotsOf(w0) + harness.SlotsOf(w1) == 4);
  CHECK(harness.LeftOut() == 2);
  for (const char* name : {"\"x\"", "\"y\""}) CHECK_THAT(harness.Notices(), Contains(name + std::string(" is left out")));
  harness.DoStep(2);
  // One that joins again under another name waits until the others are tried again, so it stops the job no more often.
  const Join again = harness.Joins("z");
  CHECK(harness.SlotsOf(again) == 0);
  all.emplace_back(again, says);
  int stalled = 0;
  for (int second = 0; second < 600; ++second) {
    harness.Pass(1, all);
    if (harness.SlotsOf(w0) + harness.SlotsOf(w1) == 4) {
      harness.DoStep(harness.coordinator->step().value);
    } else {
      ++stalled;
    }
    if (harness.coordinator->step().value > 90) break;
  }
  CHECK(stalled < 120);
  CHECK(harness.coordinator->step() > Step{90});
}

TEST_CASE("if none has delivered yet, each worker gets all slots in turn until one delivers", "[server][late]") {
  WaitingJob harness(4);
  const std::string honest = GENERATE("w0", "w1", "w2", "w3");  // all say that they have done the step, and it has
  std::vector<std::pair<Join, int>> all;
  for (const char* name : {"w0", "w1", "w2", "w3"}) all.emplace_back(harness.MakeJoin(name), 0);
  int stalled = 0;
  for (int second = 0; second < 3600 && harness.coordinator->step().value < 90; ++second) {
    harness.Pass(1, all);
    if (harness.SlotsOf(harness.MakeJoin(honest)) == 4) {
      harness.DoStep(harness.coordinator->step().value);
    } else {
      ++stalled;
    }
  }
  CHECK(harness.coordinator->step() == Step{90});
  CHECK(stalled < 1000);
}

TEST_CASE("a shard that does not answer makes no worker late", "[server][late]") {
  WaitingJob harness(2);
  const Join fast = harness.MakeJoin("w0"), slow = harness.MakeJoin("w1");
  for (int i = 0; i < 60; ++i) {
    harness.Says(fast, 0);
    harness.Says(slow, 1);
    harness.Tick(1s);
  }
  CHECK(harness.LeftOut() == 0);
}

TEST_CASE("a pause of the coordinator makes no worker late", "[server][late]") {
  WaitingJob harness(2);
  const Join fast = harness.MakeJoin("w0"), slow = harness.MakeJoin("w1");
  harness.Pass(20, {{fast, 0}, {slow, 1}});
  harness.Tick(100s);
  harness.Pass(20, {{fast, 0}, {slow, 1}});
  CHECK(harness.LeftOut() == 0);
}

TEST_CASE("async: a worker whose slots stand still is left out, whatever it says", "[server][late][async]") {
  WaitingJob harness(2, GENERATE(Mode::kAsync, Mode::kBounded));
  const Join w0 = harness.MakeJoin("w0"), x = harness.MakeJoin("w1");
  REQUIRE(harness.SlotsOf(x) == 2);  // slots 2 and 3
  for (int i = 0; i < 40; ++i) {
    Progress progress{0, harness.shards[0].hello.incarnation, harness.coordinator->generation(), {}, {}};
    const auto clock = static_cast<std::uint64_t>(i + 1);
    progress.clocks = {{clock}, {clock}, {1}, {1}};
    harness.Send(harness.shards[0].peer, progress);
    harness.Pass(1, {{w0, 1}, {x, 0}});
  }
  CHECK(harness.SlotsOf(w0) == 4);
  CHECK(harness.SlotsOf(x) == 0);
}
