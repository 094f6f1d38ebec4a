#include "server/coordinator/reader_wait.h"

#include <chrono>

#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr Instant kLease = std::chrono::seconds(10), kLook = std::chrono::milliseconds(100);
constexpr Instant kStart = std::chrono::hours(1);

// A wait that is looked at ten times a second.
struct Watched {
  ReaderWait wait;
  Instant now = kStart;  // the next look

  explicit Watched(std::uint64_t arrivals) : wait(kLease, kStart, arrivals) {}
  // Returns whether the wait goes on at each look, the one at `time` included.
  bool GoesOnUntil(Instant time, std::uint64_t arrivals) {
    for (; now <= time; now += kLook) {
      if (!wait.GoesOn(now, arrivals)) return false;
    }
    return true;
  }
  // Requires that a wait in which a reader comes before each look ends at `end`.
  void RequireEndDespiteReaders(Instant end) {
    std::uint64_t arrivals = 0;
    while (now < end) REQUIRE(GoesOnUntil(now, ++arrivals));
    CHECK_FALSE(GoesOnUntil(end, ++arrivals));
  }
};

TEST_CASE("a job that is done waits a lease for its readers", "[server][completion]") {
  Watched watched(1);
  CHECK(watched.GoesOnUntil(kStart + kLease - kLook, 1));
  CHECK_FALSE(watched.GoesOnUntil(kStart + kLease, 1));
}

TEST_CASE("a reader that comes while a job waits has a lease of its own", "[server][completion]") {
  Watched watched(1);
  CHECK(watched.GoesOnUntil(kStart + kLease - 2 * kLook, 1));
  const Instant came = watched.now;
  CHECK(watched.GoesOnUntil(came + kLease - kLook, 2));
  CHECK_FALSE(watched.GoesOnUntil(came + kLease, 2));
}

TEST_CASE("readers that keep coming hold a job up for six leases", "[server][completion]") {
  Watched(0).RequireEndDespiteReaders(kStart + ReaderWait::kLeasesMax * kLease);
}

TEST_CASE("a coordinator that stands still takes nothing of its readers' time", "[server][completion]") {
  Watched watched(1);
  CHECK(watched.GoesOnUntil(kStart + kLease / 2, 1));
  watched.now += kLease;  // the pause, and the time to the next look, do not count
  CHECK(watched.GoesOnUntil(kStart + 2 * kLease, 1));
  CHECK_FALSE(watched.GoesOnUntil(kStart + 2 * kLease + kLook, 1));
}

TEST_CASE("a coordinator that stands still does not use up the six leases", "[server][completion]") {
  Watched watched(0);
  watched.now += ReaderWait::kLeasesMax * kLease;
  watched.RequireEndDespiteReaders(watched.now + ReaderWait::kLeasesMax * kLease);
}

}  // namespace
}  // namespace capstan::server
