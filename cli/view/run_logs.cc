#include "cli/view/run_logs.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".log";

std::string LogOf(const std::string& run_dir, const std::string& process) {
  return run_dir + "/logs/" + process + std::string(kExtension);
}

// Returns the process of the log file with this name, which may be an older piece, such as worker-0.3.log; empty: none.
std::string ProcessOf(std::string name) {
  if (!name.ends_with(kExtension) || name.size() == kExtension.size()) return "";
  name.resize(name.size() - kExtension.size());
  const std::size_t digits = name.find_last_not_of("0123456789");
  if (digits != name.npos && digits > 0 && digits + 1 < name.size() && name[digits] == '.') name.resize(digits);
  return name;
}

// Returns when the file was last changed, in milliseconds of local time; 0 if there is no such file.
std::int64_t ChangedAt(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return 0;
  tm day{};
  localtime_r(&info.st_mtim.tv_sec, &day);
  return (static_cast<std::int64_t>(info.st_mtim.tv_sec) + day.tm_gmtoff) * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

FollowedFile OpenAt(const std::string& path, std::optional<std::size_t> last) {
  FollowedFile file(path);
  if (last) file.SkipToLast(*last);
  return file;
}

}  // namespace

std::vector<std::string> LoggedProcesses(const std::string& run_dir) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(run_dir + "/logs", error), end; !error && entry != end; entry.increment(error)) {
    if (std::string name = ProcessOf(entry->path().filename()); !name.empty()) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

RunLogs::RunLogs(std::string run_dir, std::string process, std::optional<std::size_t> last)
    : run_dir_(std::move(run_dir)), process_(std::move(process)), last_(last) {}

void RunLogs::FindLogs() {
  if (!process_.empty()) {
    if (logs_.empty()) Open(process_, last_);
    return;
  }
  for (const std::string& process : LoggedProcesses(run_dir_)) {
    if (!logs_.contains(process)) Open(process, last_);
  }
  last_.reset();  // a log that is new later is shown from its beginning
}

void RunLogs::Open(const std::string& process, std::optional<std::size_t> last) {
  const std::string path = LogOf(run_dir_, process);
  Log log{OpenAt(path, last), {}};
  FollowedFile survey = OpenAt(path, last);
  survey.Read([&](std::string_view line) { log.clock.Survey(line); });
  log.clock.Anchor(ChangedAt(path));
  logs_.emplace(process, std::move(log));
}

void RunLogs::Add(std::string_view line, Log* log) {
  const std::int64_t time = log->clock.Next(line);
  std::vector<std::string> pieces = log->cutter.Add(line);
  pieces.push_back(log->cutter.TakeRest());
  for (std::string& piece : pieces) log->waiting.push_back({time, std::move(piece)});
}

void RunLogs::Fill(Log* log) {
  while (log->waiting.empty() && log->has_more) {
    log->has_more = log->file.Read([&](std::string_view line) { Add(line, log); }, kBufferBytes);
  }
}

void RunLogs::TakeNew(const Take& take, bool is_end) {
  FindLogs();
  for (auto& [process, log] : logs_) log.has_more = true;
  for (;;) {
    std::pair<const std::string, Log>* first = nullptr;
    for (auto& entry : logs_) {
      Fill(&entry.second);
      const std::deque<Line>& waiting = entry.second.waiting;
      if (waiting.empty()) continue;
      if (first == nullptr || waiting.front().time < first->second.waiting.front().time) first = &entry;
    }
    if (first == nullptr) break;
    take(first->first, first->second.waiting.front().text);
    first->second.waiting.pop_front();
  }
  if (!is_end) return;
  for (auto& [process, log] : logs_) {
    if (!log.file.rest().empty()) Add(log.file.rest(), &log);
    for (const Line& line : log.waiting) take(process, line.text);
    log.waiting.clear();
  }
}

}  // namespace capstan::cli
