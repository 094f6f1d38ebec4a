#include "server/storage/writer_pace.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/catch.h"
#include "tests/patience.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a writer pauses for most of the time if it has to wait for a processor", "[storage]") {
  WriterPace pace;
  CHECK(pace.PauseAfter(milliseconds(9), {}) == milliseconds(0));
  CHECK(pace.PauseAfter(milliseconds(11), milliseconds(2)) == milliseconds(0));  // a tenth of both
  CHECK(pace.PauseAfter(milliseconds(11), milliseconds(2)) == milliseconds(44));
  CHECK(pace.PauseAfter(milliseconds(9), {}) == milliseconds(0));       // 4 of 40 ms
  CHECK(pace.PauseAfter(seconds(5), seconds(4)) == milliseconds(200));  // a snapshot may be given up meanwhile
}

TEST_CASE("the pauses of a snapshot have an end", "[storage]") {
  WriterPace pace;
  WriterPace::Duration all{};
  for (int i = 0; i < 1000; ++i) all += pace.PauseAfter(milliseconds(100), milliseconds(90));
  CHECK(all == seconds(30));
  CHECK(pace.PauseAfter(milliseconds(100), milliseconds(90)) == milliseconds(0));
}

TEST_CASE("a thread knows how long others kept it from running", "[storage]") {
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  std::atomic<bool> ends{false};
  std::thread other([&ends] {  // on the same processor
    while (!ends) {
    }
  });
  const WriterPace::Duration before = TimeWithoutProcessor();
  const auto give_up = std::chrono::steady_clock::now() + seconds(30 * testing::Patience());
  while (TimeWithoutProcessor() < before + milliseconds(5) && std::chrono::steady_clock::now() < give_up) {
  }
  CHECK(TimeWithoutProcessor() >= before + milliseconds(5));
  ends = true;
  other.join();
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

}  // namespace
}  // namespace capstan::server
