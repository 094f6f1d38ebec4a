// RunLogs: the lines of the logs of a run's processes, in the order of time.
//
// Kind:   owned by one thread. TakeNew returns what was written since the last call, also to the log of a process that
//         was started since, and across the rotation of files.
// Limits: kBufferBytes of each log are in memory; lines are cut to OutputLines::kLineBytesMax.
// Why:    a job of many processes is understood from what they did at the same time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/output_lines.h"
#include "cli/run/followed_file.h"
#include "cli/view/log_clock.h"

namespace capstan::cli {

// Lists the processes that have a log in the run directory, by name.
std::vector<std::string> LoggedProcesses(const std::string& run_dir);

class RunLogs {
 public:
  static constexpr std::uint64_t kBufferBytes = std::uint64_t{16} << 10;
  using Take = std::function<void(const std::string& process, const std::string& line)>;

  // `process`: only its log; empty: all. `last`: only so many of the lines that each log has now; nothing: all.
  RunLogs(std::string run_dir, std::string process, std::optional<std::size_t> last);

  // Calls `take` with the new lines. A line that is not complete is kept back, unless `is_end`.
  void TakeNew(const Take& take, bool is_end);

 private:
  struct Line {
    std::int64_t time;
    std::string text;
  };
  struct Log {
    FollowedFile file;
    LogClock clock;
    OutputLines cutter{};
    std::deque<Line> waiting{};
    bool has_more = true;  // lines that this call of TakeNew has not read yet
  };
  void FindLogs();
  void Open(const std::string& process, std::optional<std::size_t> last);
  static void Fill(Log* log);
  static void Add(std::string_view line, Log* log);

  const std::string run_dir_, process_;
  std::optional<std::size_t> last_;  // of logs that are opened now; nothing once they are open
  std::map<std::string, Log> logs_;  // by process
};

}  // namespace capstan::cli
