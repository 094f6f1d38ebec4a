#include "cli/flight/flight_request.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "cli/flight/flight_file.h"
#include "cli/run/flight_recording.h"
#include "common/base/file_text.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 20;
constexpr std::string_view kEnding = ".flight";

struct Asked {
  std::string file, name;
  int pid = 0;
  std::uint64_t writes = 0;  // before it was asked
};

// Splits NAME-PID.flight. Returns process 0 if the file's name is another: that of NAME-PID.K.flight has ended.
Asked ReadName(const std::string& file) {
  Asked asked{file, fs::path(file).stem(), 0, 0};
  const std::size_t dash = asked.name.rfind('-');
  if (dash == std::string::npos) return asked;
  const char* const end = asked.name.data() + asked.name.size();
  const auto parsed = std::from_chars(asked.name.data() + dash + 1, end, asked.pid);
  if (parsed.ec != std::errc() || parsed.ptr != end || asked.pid <= 0) asked.pid = 0;
  asked.name.resize(dash);
  return asked;
}

// Whether the process that made the file still runs: it holds the file's lock. The file is not made again if that
// process has just removed it.
bool IsHeld(const std::string& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat found {};
  const bool held = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
                    flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);
  return held;
}

// Whether the process blocks kFlightSignal, so that the signal cannot end it: a process that only looks at a file has
// its lock for a moment, too.
bool TakesSignal(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  constexpr std::string_view kBlocked = "SigBlk:\t";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kBlocked)) continue;
    std::uint64_t blocked = 0;
    std::from_chars(line.data() + kBlocked.size(), line.data() + line.size(), blocked, 16);
    return (blocked >> (kFlightSignal - 1) & 1) != 0;
  }
  return false;
}

std::string WhyNot(const Asked& asked) {
  constexpr std::size_t kMost = std::size_t{4} << 10;
  const Result<std::string> text = ReadFileText("/proc/" + std::to_string(asked.pid) + "/stat", kMost);
  if (!text.ok()) return "it has ended meanwhile";
  const std::size_t name_end = text->rfind(')');  // the name before it may have any characters
  const char state = name_end == std::string::npos || name_end + 2 >= text->size() ? '?' : (*text)[name_end + 2];
  if (state == 'T') return "it is stopped (SIGSTOP, or a debugger)";
  if (state == 'D') return "it waits for a disk";
  return state == '?' || state == 'Z' ? "it has ended meanwhile" : "it does not answer";
}

// The processes that the run's launcher started, or that wrote their number there, and that have no file to write.
std::vector<std::string> WithoutRecorder(const std::string& run_dir, const std::set<int>& asked) {
  std::vector<std::string> lines;
  std::error_code error;
  for (fs::directory_iterator entry(run_dir + "/pids", error), end; !error && entry != end; entry.increment(error)) {
    int pid = 0;
    std::ifstream(entry->path()) >> pid;
    if (pid <= 0 || asked.contains(pid) || kill(pid, 0) != 0) continue;
    lines.push_back(entry->path().filename().string() + " (process " + std::to_string(pid) +
                    ") keeps no flight recording: it is a program of your own, or has begun just now");
  }
  return lines;
}

}  // namespace

std::vector<std::string> FlightFilesOf(const std::string& run_dir) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(FlightFolderOf(run_dir), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const fs::file_time_type time = fs::last_write_time(entry->path(), gone);
    if (!gone && entry->path().extension() == kEnding) found.emplace_back(time, entry->path());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> files;
  for (auto& [time, file] : found) files.push_back(std::move(file));
  return files;
}

Result<FlightAnswers> RequestFlights(const std::string& run_dir, double wait_seconds) {
  if (std::error_code error; !fs::is_directory(FlightFolderOf(run_dir), error)) {
    return Invalid(FlightFolderOf(run_dir) +
                   ": there is no such folder, so no process has kept a flight recording here");
  }
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_seconds));
  FlightAnswers answers;
  std::vector<Asked> waiting;
  std::set<int> asked;
  for (const std::string& file : FlightFilesOf(run_dir)) {
    Asked one = ReadName(file);
    if (one.pid == 0 || !IsHeld(file) || !TakesSignal(one.pid)) continue;
    one.writes = WritesIn(file);
    if (kill(one.pid, kFlightSignal) != 0) continue;
    asked.insert(one.pid);
    waiting.push_back(std::move(one));
  }
  while (true) {
    std::erase_if(waiting, [&](const Asked& one) {
      const bool written = WritesIn(one.file) > one.writes;
      if (written) answers.files.push_back(one.file);
      return written;
    });
    if (waiting.empty() || Clock::now() >= deadline) break;
    poll(nullptr, 0, kLookMs);
  }
  for (const Asked& one : waiting) {
    answers.missing.push_back(one.name + " (process " + std::to_string(one.pid) + ") has not written: " + WhyNot(one));
  }
  std::ranges::move(WithoutRecorder(run_dir, asked), std::back_inserter(answers.missing));
  return answers;
}

}  // namespace capstan::cli
