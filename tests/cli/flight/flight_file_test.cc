#include "cli/flight/flight_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/flight/flight_request.h"
#include "common/flight/flight_recorder.h"
#include "common/flight/flight_text.h"
#include "common/wire/messages.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Written {
  TempFolder folder;
  FlightRecorder recorder{"server-0"};
  std::string path = folder.path("flight/" + FlightFileName("server-0", getpid()));

  Written() {
    REQUIRE(recorder.OpenFile(folder.path("flight")).ok());
    FlightLane* const lane = recorder.AddLane("shard-0");
    lane->Note(FlightKind::kInfo, "begins", std::chrono::seconds(1));
    lane->Received(PeerId{1}, Ping{}, std::chrono::seconds(2));
    recorder.AddLane("shard-1");
  }
};

TEST_CASE("a written file has the events of every lane, for this user only", "[cli][flight]") {
  Written written;
  CHECK(ReadFlightFile(written.path).status().code() == Code::kBusy);  // empty so far
  CHECK(WritesIn(written.path) == 0);
  REQUIRE(written.recorder.Write(FlightReason::kFailure, "the disk is full"));
  CHECK(WritesIn(written.path) == 1);
  struct stat file {};
  REQUIRE(stat(written.path.c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0600);
  const Result<FlightProcess> process = ReadFlightFile(written.path);
  REQUIRE(process.ok());
  CHECK(process->name == "server-0");
  CHECK(process->header.pid == static_cast<std::uint32_t>(getpid()));
  CHECK(process->header.reason == FlightReason::kFailure);
  CHECK(TextIn(process->header.why) == "the disk is full");
  REQUIRE(process->tracks.size() == 2);
  CHECK(process->tracks[0].name == "shard-0");
  REQUIRE(process->tracks[0].events.size() == 2);
  CHECK(MessageName(process->tracks[0].events[0].record.message) == "Ping");
  CHECK(TextIn(process->tracks[0].events[1].text) == "begins");
  CHECK(process->tracks[1].events.empty());
}

TEST_CASE("a file that is cut, damaged, foreign or of another version is refused by name", "[cli][flight]") {
  Written written;
  REQUIRE(written.recorder.Write(FlightReason::kRequest));
  const std::string whole = ReadAll(written.path);
  const auto refusal = [](const std::string& bytes) {
    const Status status = ParseFlightFile(bytes, "x.flight").status();
    CHECK(status.message().starts_with("x.flight: "));
    return status.code();
  };
  CHECK(ParseFlightFile(whole, "x.flight").ok());
  CHECK(refusal("") == Code::kBusy);
  CHECK(refusal("capsize") == Code::kInvalid);
  CHECK(refusal(std::string(1000, 'a')) == Code::kInvalid);
  CHECK(refusal(whole.substr(0, whole.size() - 1)) == Code::kCorrupt);
  CHECK(refusal(whole.substr(0, sizeof(FlightFileHeader) + 10)) == Code::kCorrupt);
  CHECK(refusal(whole + "a") == Code::kCorrupt);
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  CHECK(refusal(damaged) == Code::kCorrupt);
  std::string newer = whole;
  newer[offsetof(FlightFileHeader, version)] = 9;
  CHECK(refusal(newer) == Code::kInvalid);
  std::string other_messages = whole;
  other_messages[offsetof(FlightFileHeader, message_types)] ^= 1;
  CHECK(refusal(other_messages) == Code::kInvalid);
}

TEST_CASE("a file that is no file, or far too large, is refused unread", "[cli][flight]") {
  const TempFolder folder;
  CHECK(ReadFlightFile(folder.path("none.flight")).status().code() == Code::kInvalid);
  CHECK(ReadFlightFile(folder.path()).status().code() == Code::kInvalid);
  const std::string large = folder.Write("large.flight", "");
  std::filesystem::resize_file(large, std::uintmax_t{1} << 40);
  CHECK(ReadFlightFile(large).status().message().find("too large") != std::string::npos);
}

TEST_CASE("a process that wrote nothing leaves no file, and old files are removed", "[cli][flight]") {
  const TempFolder folder;
  for (int pid = 1; pid <= 9; ++pid) folder.Write("server-0-" + std::to_string(pid) + ".flight", "x");
  folder.Write("server-0-other-3.flight", "x");
  folder.Write("server-01-3.flight", "x");
  {
    FlightRecorder recorder("server-0");
    REQUIRE(recorder.OpenFile(folder.path()).ok());
    std::size_t own = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      own += name.starts_with("server-0-") && name != "server-0-other-3.flight" ? 1 : 0;
    }
    CHECK(own == FlightRecorder::kFilesMax);
    CHECK(std::filesystem::exists(folder.path(FlightFileName("server-0", getpid()))));
  }
  CHECK_FALSE(std::filesystem::exists(folder.path(FlightFileName("server-0", getpid()))));
  CHECK(std::filesystem::exists(folder.path("server-0-other-3.flight")));
  CHECK(std::filesystem::exists(folder.path("server-01-3.flight")));
}

TEST_CASE("a recording outlives a later process of the same name and number, up to the limit", "[cli][flight]") {
  const TempFolder folder;
  const std::size_t starts = 2 * FlightRecorder::kFilesMax;
  for (std::size_t start = 1; start <= starts; ++start) {
    FlightRecorder recorder("server-0");
    REQUIRE(recorder.OpenFile(folder.path()).ok());
    REQUIRE(recorder.Write(FlightReason::kFailure, "crash " + std::to_string(start)));
    if (start != 2) continue;
    const Result<FlightProcess> first =
        ReadFlightFile(folder.path("server-0-" + std::to_string(getpid()) + ".1.flight"));
    REQUIRE(first.ok());
    CHECK(TextIn(first->header.why) == "crash 1");
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CHECK(ReadFlightFile(entry.path()).ok());
    ++files;
  }
  CHECK(files == FlightRecorder::kFilesMax);
  const Result<FlightProcess> newest = ReadFlightFile(folder.path(FlightFileName("server-0", getpid())));
  REQUIRE(newest.ok());
  CHECK(TextIn(newest->header.why) == "crash " + std::to_string(starts));
}

TEST_CASE("a recorder has a bounded number of lanes, and finds one again by its name", "[cli][flight]") {
  FlightRecorder recorder("server-0");
  FlightLane* const first = recorder.AddLane("0");
  for (std::size_t i = 1; i < kFlightLanesMax; ++i) CHECK(recorder.AddLane(std::to_string(i)) != nullptr);
  CHECK(recorder.AddLane("one more") == nullptr);
  CHECK(recorder.AddLane("0") == first);
  CHECK_FALSE(recorder.Write(FlightReason::kRequest));  // it has no file
}

TEST_CASE("nobody is asked who does not hold a file of a recorder", "[cli][flight]") {
  const TempFolder folder;
  CHECK(RequestFlights(folder.path(), 0).status().code() == Code::kInvalid);
  // This process's number, but not its lock: the signal would end this test.
  folder.Write("flight/worker-0-" + std::to_string(getpid()) + ".flight", "");
  folder.Write("flight/notes.txt", "");
  REQUIRE(mkfifo(folder.path("flight/worker-1-1.flight").c_str(), 0600) == 0);
  const Result<FlightAnswers> answers = RequestFlights(folder.path(), 0);
  REQUIRE(answers.ok());
  CHECK(answers->files.empty());
  CHECK(answers->missing.empty());
  folder.Write("pids/worker-0", std::to_string(getpid()) + "\n");
  const Result<FlightAnswers> without = RequestFlights(folder.path(), 0);
  REQUIRE(without.ok());
  REQUIRE(without->missing.size() == 1);
  CHECK(without->missing.front().starts_with("worker-0 (process " + std::to_string(getpid()) + ") keeps no flight"));
}

}  // namespace
}  // namespace capstan::cli
