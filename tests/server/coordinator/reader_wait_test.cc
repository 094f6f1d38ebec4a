#include "server/coordinator/reader_wait.h"

#include <chrono>

#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr Instant kLease = std::chrono::seconds(10);
constexpr Instant kStart = std::chrono::hours(1);

TEST_CASE("a job that is done waits a lease for its readers", "[server][completion]") {
  ReaderWait wait(kLease, kStart, 1);
  CHECK(wait.GoesOn(kStart, 1));
  CHECK(wait.GoesOn(kStart + kLease - Instant(1), 1));
  CHECK_FALSE(wait.GoesOn(kStart + kLease, 1));
}

TEST_CASE("a reader that comes while a job waits has a lease of its own", "[server][completion]") {
  ReaderWait wait(kLease, kStart, 1);
  CHECK(wait.GoesOn(kStart + kLease - Instant(1), 2));
  CHECK(wait.GoesOn(kStart + 2 * kLease - Instant(2), 2));
  CHECK_FALSE(wait.GoesOn(kStart + 2 * kLease - Instant(1), 2));
}

TEST_CASE("readers that keep coming hold a job up for six leases", "[server][completion]") {
  ReaderWait wait(kLease, kStart, 0);
  const Instant end = kStart + ReaderWait::kLeasesMax * kLease;
  std::uint64_t arrivals = 0;
  for (Instant now = kStart; now < end; now += kLease / 2) CHECK(wait.GoesOn(now, ++arrivals));
  CHECK(wait.GoesOn(end - Instant(1), ++arrivals));
  CHECK_FALSE(wait.GoesOn(end, ++arrivals));
}

}  // namespace
}  // namespace capstan::server
