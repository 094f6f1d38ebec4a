#include "cli/run/flight_recording.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cli/flight/flight_file.h"
#include "common/flight/flight_text.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

// Runs `body` in a process of its own, with a recording that has all lanes and so takes long to write. Returns what it
// has left.
template <class Body>
Result<FlightProcess> RecordInChild(const TempFolder& folder, const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    BlockFlightSignal();
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) ::signal(signal, SIG_DFL);  // not those of the test's framework
    {
      FlightRecording recording("server-0", folder.path());
      for (std::size_t lane = 0; lane < kFlightLanesMax; ++lane) recording.AddLane(std::to_string(lane));
      body(recording);
    }
    _exit(0);
  }
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  return ReadFlightFile(folder.path(FlightFileName("server-0", child)));
}

TEST_CASE("threads that crash together leave one whole recording", "[cli][flight]") {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const TempFolder folder;
    const Result<FlightProcess> process = RecordInChild(folder, [](FlightRecording&) {
      std::atomic<int> ready{0};
      const auto crash = [&](int signal) {
        ++ready;
        while (ready < 3) std::this_thread::yield();
        raise(signal);
      };
      std::vector<std::thread> threads;
      for (const int signal : {SIGSEGV, SIGSEGV, SIGBUS}) threads.emplace_back(crash, signal);
      for (std::thread& thread : threads) thread.join();
    });
    REQUIRE(process.ok());
    CHECK(process->header.reason == FlightReason::kCrash);
    CHECK(process->header.writes == 1);
    CHECK(process->tracks.size() == kFlightLanesMax);
  }
}

TEST_CASE("a failure is recorded though requests keep the file busy, and stays its reason", "[cli][flight]") {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const TempFolder folder;
    const Result<FlightProcess> process = RecordInChild(folder, [&](FlightRecording& recording) {
      const std::string file = folder.path(FlightFileName("server-0", getpid()));
      std::atomic<bool> stop{false};
      std::thread requests([&] {
        while (!stop) kill(getpid(), kFlightSignal);
      });
      while (WritesIn(file) == 0) std::this_thread::yield();
      recording.WriteFailure(Invalid("the disk is full"));
      stop = true;
      requests.join();
    });
    REQUIRE(process.ok());
    CHECK(process->header.reason == FlightReason::kFailure);
    CHECK(TextIn(process->header.why) == "the disk is full");
  }
}

}  // namespace
}  // namespace capstan::cli
