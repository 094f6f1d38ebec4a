#include "cli/view/run_logs.h"

#include <fstream>

#include "common/base/rotated_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

struct Run : testing::TempFolder {
  void Log(const std::string& name, const std::string& text) const {
    Write("logs/" + name + ".log", "");  // makes the folder
    Append(name, text);
  }
  void Append(const std::string& name, const std::string& text) const {
    std::ofstream(path("logs/" + name + ".log"), std::ios::app) << text;
  }
};

std::string TakeAll(RunLogs* logs, bool is_end = false) {
  std::string text;
  logs->TakeNew([&](const std::string& process, const std::string& line) { text += process + ":" + line + "\n"; },
                is_end);
  return text;
}

TEST_CASE("a line's time of day is read only where it is one", "[cli][logs]") {
  CHECK(TimeOfLine("00:00:00.000 x") == 0);
  CHECK(TimeOfLine("13:05:59.250 step") == 47'159'250);
  for (const char* line : {"", "13:05:59.250", "24:05:59.250 x", "13:60:59.250 x", "1x:05:59.250 x", "2026-11-27 x yz",
                           "13:05:59,250 x", "-1:05:59.250 x"})
    CHECK_FALSE(TimeOfLine(line));
}

TEST_CASE("the days of lines are counted back from the last change of the file", "[cli][logs]") {
  const std::int64_t midnight = 20'000 * kDayMs;
  const auto times = [&](const std::vector<std::string>& lines, std::int64_t changed) {
    LogClock clock;
    for (const std::string& line : lines) clock.Survey(line);
    clock.Anchor(changed);
    std::vector<std::int64_t> found;
    for (const std::string& line : lines) found.push_back(clock.Next(line) - midnight);
    return found;
  };
  CHECK(times({"23:00:00.000 a", "no time", "01:00:00.000 b"}, midnight + 3'600'000) ==
        std::vector<std::int64_t>{-3'600'000, -3'600'000, 3'600'000});
  // The last line with a time was before midnight, the last change after it.
  CHECK(times({"23:59:59.000 a", "b"}, midnight + 5) == std::vector<std::int64_t>{-1000, -1000});
  CHECK(times({"no time", "00:00:01.000 a", "00:00:00.900 b"}, midnight + 1000) ==
        std::vector<std::int64_t>{1000, 1000, 1000});
  CHECK(times({"none", "at all"}, midnight + 7) == std::vector<std::int64_t>{7, 7});
  // Threads print at once, so times go back a little; a time far back is of the next day.
  CHECK(
      times({"18:00:00.000 a", "17:59:00.000 b", "18:00:00.000 c", "01:00:00.000 d"}, midnight + kDayMs + 3'600'000) ==
      std::vector<std::int64_t>{kDayMs * 3 / 4, kDayMs * 3 / 4, kDayMs * 3 / 4, kDayMs + 3'600'000});
}

TEST_CASE("logs are shown together in the order of time", "[cli][logs]") {
  const Run run;
  run.Log("worker-0", "10:00:00.100 one\n  and more\n10:00:00.300 three\n");
  run.Log("server-0", "10:00:00.200 two\n10:00:00.400 four\nhalf");
  RunLogs logs(run.path(), "", {});
  CHECK(TakeAll(&logs) ==
        "worker-0:10:00:00.100 one\nworker-0:  and more\nserver-0:10:00:00.200 two\nworker-0:10:00:00.300 three\n"
        "server-0:10:00:00.400 four\n");
  CHECK(TakeAll(&logs).empty());
  CHECK(TakeAll(&logs, true) == "server-0:half\n");
}

TEST_CASE("logs are followed across rotation and to processes that start later", "[cli][logs]") {
  const Run run;
  run.Log("worker-0", "old\n");
  RunLogs logs(run.path(), "", 0);
  CHECK(TakeAll(&logs).empty());
  run.Append("worker-0", "1\n");
  REQUIRE(RotateFile(run.path("logs/worker-0.log"), 3).ok());
  run.Append("worker-0", "2\n");
  run.Log("worker-1", "its first\n");
  const std::string text = TakeAll(&logs);
  CHECK(text.find("worker-0:1\nworker-0:2\n") != std::string::npos);
  CHECK(text.find("worker-1:its first\n") != std::string::npos);
  CHECK(text.find("old") == std::string::npos);
  CHECK(LoggedProcesses(run.path()) == std::vector<std::string>{"worker-0", "worker-1"});
}

TEST_CASE("only one process, and only its last lines", "[cli][logs]") {
  const Run run;
  run.Log("worker-0", "1\n2\n3\n");
  run.Log("server-0", "x\n");
  RunLogs logs(run.path(), "worker-0", 2);
  CHECK(TakeAll(&logs, true) == "worker-0:2\nworker-0:3\n");
}

TEST_CASE("of a line that a progress bar wrote again and again the newest text counts, and a long line is cut",
          "[cli][logs]") {
  const Run run;
  run.Log("worker-0", "1 %\r2 %\r100 %\n" + std::string(10'000, 'x') + "\n");
  RunLogs logs(run.path(), "", {});
  const std::string text = TakeAll(&logs);
  CHECK(text.starts_with("worker-0:100 %\nworker-0:xxx"));
  CHECK(text.find(std::string(OutputLines::kLineBytesMax + 1, 'x')) == std::string::npos);
}

}  // namespace
}  // namespace capstan::cli
