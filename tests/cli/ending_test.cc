#include "cli/launch/ending.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using std::chrono::seconds;
using Order = Ending::Order;

const Ending::TimePoint kStart{};

TEST_CASE("asked to stop, the coordinator takes a last snapshot, then all are told, then killed", "[cli][ending]") {
  Ending ending(seconds(300));
  CHECK(ending.Next({}, kStart) == Order::kNone);
  CHECK_FALSE(ending.begun());
  CHECK(ending.Next({.stops = 1}, kStart) == Order::kLastSnapshot);
  CHECK(ending.begun());
  CHECK_FALSE(ending.stopping());
  CHECK(ending.Next({.stops = 1}, kStart + seconds(69)) == Order::kNone);
  SECTION("when it has ended") {
    const Ending::TimePoint then = kStart + seconds(1);
    CHECK(ending.Next({.stops = 1, .failed = true, .coordinator_ended = true}, then) == Order::kEnd);
    CHECK(ending.stopping());
    CHECK(ending.Next({.stops = 1, .failed = true, .coordinator_ended = true}, then + seconds(9)) == Order::kNone);
    CHECK(ending.Next({.stops = 1, .failed = true, .coordinator_ended = true}, then + seconds(10)) == Order::kKill);
    CHECK(ending.Next({.stops = 1, .failed = true, .coordinator_ended = true}, then + seconds(11)) == Order::kNone);
  }
  SECTION("when it takes too long") {
    CHECK(ending.Next({.stops = 1}, kStart + Ending::kLastSnapshotSeconds) == Order::kEnd);
  }
  SECTION("when it is asked once more, at once") {
    CHECK(ending.Next({.stops = 2}, kStart) == Order::kEnd);
    CHECK(ending.Next({.stops = 2}, kStart) == Order::kKill);
  }
  CHECK_FALSE(ending.lost_patience());
}

TEST_CASE(
    "after a job's own end programs have the time that they are given, and processes of ours what a stop gives them",
    "[cli][ending]") {
  Ending ending(seconds(300));
  CHECK(ending.Next({.coordinator_ended = true}, kStart) == Order::kWait);
  CHECK(ending.stopping());
  CHECK(ending.waits_until() == kStart + seconds(300));
  CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(9)) == Order::kNone);
  CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(10)) == Order::kEndOurs);
  CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(19)) == Order::kNone);
  CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(20)) == Order::kKillOurs);
  CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(299)) == Order::kNone);
  SECTION("and are told to end after it") {
    CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(300)) == Order::kEnd);
    CHECK(ending.lost_patience());
    CHECK_FALSE(ending.waits_until());
    CHECK(ending.Next({.coordinator_ended = true}, kStart + seconds(310)) == Order::kKill);
  }
  SECTION("or when somebody asks for it") {
    CHECK(ending.Next({.stops = 1, .coordinator_ended = true}, kStart + seconds(299)) == Order::kEnd);
    CHECK_FALSE(ending.lost_patience());
  }
}

TEST_CASE("a failure ends all of them at once", "[cli][ending]") {
  Ending ending(seconds(300));
  CHECK(ending.Next({.failed = true}, kStart) == Order::kEnd);
  CHECK(ending.Next({.failed = true}, kStart + Ending::kStopSeconds) == Order::kKill);
}

}  // namespace
}  // namespace capstan::cli
