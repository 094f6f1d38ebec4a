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
  Instant now = kStart;

  explicit Watched(std::uint64_t arrivals) : wait(kLease, kStart, arrivals) {}
  // Returns whether the wait goes on at each look until `time`, and ends there.
  bool EndsAt(Instant time, std::uint64_t arrivals) {
    for (; now < time; now += kLook) {
      if (!wait.GoesOn(now, arrivals)) return false;
    }
    return !wait.GoesOn(now = time, arrivals);
  }
};

TEST_CASE("a job that is done waits a lease for its readers", "[server][completion]") {
  CHECK(Watched(1).EndsAt(kStart + kLease, 1));
}

TEST_CASE("a reader that comes while a job waits has a lease of its own", "[server][completion]") {
  Watched watched(1);
  CHECK_FALSE(watched.EndsAt(kStart + kLease - kLook, 1));
  CHECK(watched.EndsAt(kStart + 2 * kLease - kLook, 2));
}

TEST_CASE("readers that keep coming hold a job up for six leases", "[server][completion]") {
  Watched watched(0);
  std::uint64_t arrivals = 0;
  const Instant end = kStart + ReaderWait::kLeasesMax * kLease;
  while (watched.now + kLook < end) REQUIRE_FALSE(watched.EndsAt(watched.now + kLook, ++arrivals));
  CHECK(watched.EndsAt(end, ++arrivals));
}

TEST_CASE("a coordinator that stands still takes nothing of its readers' time", "[server][completion]") {
  Watched watched(1);
  CHECK_FALSE(watched.EndsAt(kStart + kLease / 2, 1));
  watched.now += kLease;
  CHECK(watched.EndsAt(kStart + 2 * kLease, 1));
}

TEST_CASE("a coordinator that stands still does not use up the six leases", "[server][completion]") {
  Watched watched(0);
  watched.now += ReaderWait::kLeasesMax * kLease;
  std::uint64_t arrivals = 0;
  const Instant end = watched.now + ReaderWait::kLeasesMax * kLease;
  while (watched.now + kLook < end) REQUIRE_FALSE(watched.EndsAt(watched.now + kLook, ++arrivals));
  CHECK(watched.EndsAt(end, ++arrivals));
}

}  // namespace
}  // namespace capstan::server
