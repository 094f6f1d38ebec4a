#include "server/net/coordinator_watch.h"

#include "tests/catch.h"

namespace capstan::server {
namespace {

class WatchHarness {
 public:
  explicit WatchHarness(double join, double stall)
      : watch_({.address = "10.0.0.5:29600", .join_seconds = join, .stall_seconds = stall}, now_) {}

  // Looks ten times a second, as a loop does. Returns the lines, and the failure's message if the watch gave up.
  std::vector<std::string> Pass(int seconds) {
    std::vector<std::string> lines;
    for (int i = 0; i < 10 * seconds; ++i) {
      now_ += std::chrono::milliseconds(100);
      const Result<std::string> line = watch_.Look(now_);
      if (!line.ok()) return lines.push_back(line.status().message()), lines;
      if (!line->empty()) lines.push_back(*line);
    }
    return lines;
  }
  void TakeMessage() { watch_.NoteMessage(now_); }
  void StandStill(int seconds) { now_ += std::chrono::seconds(seconds); }

 private:
  Instant now_ = std::chrono::hours(1);
  CoordinatorWatch watch_;
};

TEST_CASE("a process that waits for its coordinator says so every 5 s, with what to do, until it gives up",
          "[server][loops]") {
  WatchHarness harness(12, 600);
  CHECK(harness.Pass(20) ==
        std::vector<std::string>{"waiting 5 s for the coordinator at 10.0.0.5:29600; start it with: "
                                 "capstan-server JOB.toml --coordinator; giving up "
                                 "after 12 s",
                                 "waiting 10 s for the coordinator at 10.0.0.5:29600; start it with: "
                                 "capstan-server JOB.toml --coordinator; giving up "
                                 "after 12 s",
                                 "the coordinator at 10.0.0.5:29600 did not answer within 12 s; "
                                 "start it (capstan-server JOB.toml --coordinator) or "
                                 "check cluster.coordinator"});
}

TEST_CASE("a coordinator that falls silent is waited for, and welcome when it answers", "[server][loops]") {
  WatchHarness harness(12, 8);
  harness.TakeMessage();
  CHECK(harness.Pass(4).empty());
  harness.TakeMessage();
  CHECK(harness.Pass(6) ==
        std::vector<std::string>{
            "waiting 5 s for the coordinator at 10.0.0.5:29600, which has answered before; if it ended, "
            "start it again with the command that it had; giving up after 8 s"});
  harness.TakeMessage();
  CHECK(harness.Pass(4) == std::vector<std::string>{"the coordinator at 10.0.0.5:29600 answers"});
  CHECK(harness.Pass(10).back() == "the coordinator at 10.0.0.5:29600 has been silent for 8 s; see why it ended");
}

TEST_CASE("after standing still itself a process blames nobody", "[server][loops]") {
  WatchHarness harness(12, 8);
  harness.TakeMessage();
  harness.StandStill(100);
  CHECK(harness.Pass(4).empty());
}

}  // namespace
}  // namespace capstan::server
