#include "cli/find_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "common/file_lock.h"
#include "common/job_config.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kRuns[] = "runs";

// Those with a coordinator's log, the newest first.
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

}  // namespace

Result<std::string> NewestRun(const std::string& job_name) {
  for (const std::string& run : Runs()) {
    if (job_name.empty() || IsOf(run, job_name)) return run;
  }
  const std::string whose = job_name.empty() ? "" : " of a job named \"" + job_name + "\"";
  return Invalid("there is no run" + whose + " under runs/ here; say which by its directory");
}

Result<std::string> RunningRun() {
  for (const std::string& run : Runs()) {
    if (HolderOf(run) != 0) return run;
  }
  return Invalid("no job runs in a directory under runs/ here; say which by its directory");
}

int HolderOf(const std::string& run_dir) {
  const std::string path = run_dir + "/lock";
  if (std::error_code error; !fs::exists(path, error)) return 0;
  const Result<FileLock> lock = FileLock::Acquire(path, 0);
  if (lock.ok() || lock.status().code() != Code::kBusy) return 0;
  std::ifstream in(path);
  int process = 0;
  return in >> process && process > 0 ? process : 0;
}

}  // namespace capstan::cli
