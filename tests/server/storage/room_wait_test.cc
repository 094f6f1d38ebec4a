#include "server/storage/room_wait.h"

#include <vector>

#include "tests/catch.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

const Status kFull(Code::kBusy, "cannot write run/metrics.jsonl: No space left on device");

// A RoomWait with a simulated clock, and a disk that is full until `room_at`.
struct Wait {
  RoomWait::Options Options() {
    RoomWait::Options options;
    options.on_notice = [this](const Notice& notice) { said.push_back(notice.text); };
    options.stopped = [this] { return now >= stop_at; };
    options.now = [this] { return now; };
    options.pause = [this](Instant time) { now += time; };
    options.report_seconds = 5;
    options.stall_seconds = 600;
    return options;
  }
  Status Write() {
    ++writes;
    return now >= room_at ? Status() : kFull;
  }

  Instant now{}, room_at{}, stop_at = Instant::max();
  int writes = 0;
  std::vector<std::string> said;
  RoomWait wait{Options()};
};

TEST_CASE("a write that succeeds, or fails for another reason, is made once and without a word", "[server][room]") {
  Wait one;
  CHECK(one.wait.Write("/", [&] { return one.Write(); }).ok());
  CHECK(one.wait.Write("/", [] { return Unreachable("the disk is gone"); }).code() == Code::kUnreachable);
  CHECK(one.writes == 1);
  CHECK(one.said.empty());
  CHECK(one.wait.waited() == Instant());
}

TEST_CASE("a full disk is waited for, with words in good intervals, and the time is known", "[server][room]") {
  Wait one;
  one.room_at = seconds(12);
  CHECK(one.wait.Write("/", [&] { return one.Write(); }).ok());
  REQUIRE(one.said.size() == 4);
  CHECK_THAT(one.said[0], Contains("waits for room on the disk") && Contains(kFull.message()) && Contains("are free"));
  CHECK_THAT(one.said[1], Contains("waits 5 s for room"));
  CHECK_THAT(one.said[2], Contains("waits 10 s for room"));
  CHECK_THAT(one.said[3], Contains("room on the disk again after 12 s"));
  CHECK(one.wait.waited() == seconds(12));
  one.room_at = seconds(15);
  CHECK(one.wait.Write("/", [&] { return one.Write(); }).ok());
  CHECK(one.wait.waited() == seconds(15));
}

TEST_CASE("the wait ends with the job's stall limit, and when the job is stopped", "[server][room]") {
  Wait stalled, stopped;
  stalled.room_at = stopped.room_at = seconds(100000);
  stopped.stop_at = seconds(3);
  const Status late = stalled.wait.Write("/", [&] { return stalled.Write(); });
  CHECK(late.code() == Code::kTimeout);
  CHECK_THAT(late.message(), Contains("No space left") && Contains("600 s") && Contains("--resume"));
  CHECK(stalled.now >= seconds(600));
  CHECK(stalled.wait.waited() == stalled.now);
  const Status asked = stopped.wait.Write("/", [&] { return stopped.Write(); });
  CHECK(asked.code() == Code::kRefused);
  CHECK_THAT(asked.message(), Contains("No space left") && Contains("stopped while it waited"));
  CHECK(stopped.now < seconds(4));
  CHECK(stopped.wait.waited() == stopped.now);
}

}  // namespace
}  // namespace capstan::server
