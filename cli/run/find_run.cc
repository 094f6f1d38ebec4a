#include "cli/run/find_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "cli/run/go_on_file.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kRuns[] = "runs";

// Lists the folders under runs/ that have a coordinator's log, newest first.
std::vector<std::string> Runs() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(kRuns, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code missing;
    const fs::file_time_type time = fs::last_write_time(entry->path() / "snapshots/coordinator.log", missing);
    if (!missing) found.emplace_back(time, entry->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> runs;
  for (auto& [time, path] : found) runs.push_back(std::move(path));
  return runs;
}

bool IsOf(const std::string& run, const std::string& job_name) {
  const Result<JobConfig> config = LoadJobConfig(run + "/job.toml");
  return config.ok() && config->name() == job_name;
}

Status NoRun(const std::string& job_name) {
  const std::string whose = job_name.empty() ? "" : " of a job named \"" + job_name + "\"";
  return Invalid("there is no run" + whose + " under runs/ here; say which by its directory");
}

}  // namespace

Result<std::string> NewestRun(const std::string& job_name) {
  for (const std::string& run : Runs()) {
    if (job_name.empty() || IsOf(run, job_name)) return run;
  }
  return NoRun(job_name);
}

Result<std::string> NewestLaunchedRun(const std::string& job_name) {
  for (const std::string& run : Runs()) {
    if (!GoOnCallOf(run).empty() && (job_name.empty() || IsOf(run, job_name))) return run;
  }
  return NoRun(job_name);
}

Result<std::string> RunningRun() {
  for (const std::string& run : Runs()) {
    const Result<int> holder = HolderOf(run);
    if (holder.ok() && *holder != 0) return run;
  }
  return Invalid("no job runs in a directory under runs/ here; say which by its directory");
}

Result<std::string> RunOrDefault(const std::string& run_dir) {
  if (!run_dir.empty()) {
    if (std::error_code error; fs::is_directory(run_dir, error)) return run_dir;
    return Invalid("there is no run directory " + run_dir);
  }
  Result<std::string> running = RunningRun();
  return running.ok() ? running : NewestRun();
}

Result<int> HolderOf(const std::string& run_dir) {
  const std::string path = run_dir + "/lock";
  const int lock = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0 && errno == ENOENT) return 0;
  if (lock < 0)
    return Unreachable("cannot see whether a job runs in " + run_dir + ": " + path + ": " + std::strerror(errno));
  const bool held = flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(lock);
  if (!held) return 0;
  std::ifstream in(path);
  int process = 0;
  return in >> process && process > 0 ? process : 0;
}

}  // namespace capstan::cli
