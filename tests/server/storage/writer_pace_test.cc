#include "server/storage/writer_pace.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/catch.h"
#include "tests/patience.h"

namespace capstan::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A thread whose times a test chooses.
struct Writer {
  WriterPace::Duration Work(WriterPace::Duration ran, WriterPace::Duration waited) {
    time.ran += ran;
    time.waited += waited;
    return pace.PauseAt(time);
  }
  ProcessorTime time{seconds(3), seconds(2)};  // before it begins
  WriterPace pace{time};
};

TEST_CASE("a writer pauses where it has to wait for a processor", "[storage]") {
  Writer writer;
  CHECK(writer.Work(milliseconds(8), milliseconds(2)) == milliseconds(0));  // a fifth
  CHECK(writer.Work(milliseconds(3), milliseconds(2)) == milliseconds(30));
  CHECK(writer.Work(seconds(1), seconds(4)) == milliseconds(50));  // a snapshot may be given up meanwhile
}

TEST_CASE("a writer stops pausing soon after a processor is free", "[storage]") {
  Writer writer;
  for (int i = 0; i < 100; ++i) CHECK(writer.Work(milliseconds(2), milliseconds(8)) > milliseconds(0));
  int pauses = 0;
  for (int i = 0; i < 1000; ++i) pauses += writer.Work(milliseconds(2), milliseconds(0)) > milliseconds(0) ? 1 : 0;
  CHECK(pauses > 0);
  CHECK(pauses < 300);  // 0.6 s of work
  CHECK(writer.Work(milliseconds(2), milliseconds(0)) == milliseconds(0));
}

TEST_CASE("short pauses of a writer are saved up", "[storage]") {
  Writer writer;
  int pauses = 0;
  WriterPace::Duration all{};
  for (int i = 0; i < 1000; ++i) {
    const WriterPace::Duration pause = writer.Work(std::chrono::microseconds(5), std::chrono::microseconds(5));
    CHECK((pause == milliseconds(0) || pause >= milliseconds(5)));
    pauses += pause > milliseconds(0) ? 1 : 0;
    all += pause;
  }
  CHECK(pauses > 1);
  CHECK(all > milliseconds(50));
  CHECK(all <= milliseconds(60));  // six times as long as the work
}

TEST_CASE("the pauses of a snapshot have an end", "[storage]") {
  Writer writer;
  WriterPace::Duration all{};
  for (int i = 0; i < 1000; ++i) all += writer.Work(milliseconds(10), milliseconds(90));
  CHECK(all == seconds(10));
  CHECK(writer.Work(milliseconds(10), milliseconds(90)) == milliseconds(0));
}

TEST_CASE("a thread knows how long others kept it from running", "[storage]") {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) {
    CHECK(ReadProcessorTime().waited == seconds(0));
    return;
  }
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
  const ProcessorTime before = ReadProcessorTime();
  const auto give_up = std::chrono::steady_clock::now() + seconds(30 * testing::Patience());
  const auto waited = [&] { return ReadProcessorTime().waited - before.waited; };
  while (waited() < milliseconds(5) && std::chrono::steady_clock::now() < give_up) {
  }
  CHECK(waited() >= milliseconds(5));
  CHECK(ReadProcessorTime().ran > before.ran);
  ends = true;
  other.join();
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

}  // namespace
}  // namespace capstan::server
