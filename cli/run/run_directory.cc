#include "cli/run/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/run/run_contents.h"
#include "common/base/durable_file.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kLockWaitSeconds = 10;  // longest wait for the processes of an earlier start to end
constexpr double kLookSeconds = 0.5;     // wait for `capstan status`, which takes the lock for a moment

constexpr int kSameSecondMax = 1000;
constexpr char kGiveAnother[] = "; give another --run-dir";

std::string DefaultPath(const std::string& job_name) {
  const std::time_t now = std::time(nullptr);
  tm day{};
  localtime_r(&now, &day);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &day);
  return "runs/" + job_name + "-" + text.data();
}

Status MakeRunFolder(const std::string& path) {
  const Status made = MakeFolders(path);
  return made.ok() ? made : Status(made.code(), made.message() + kGiveAnother);
}

// Fails if the folder is another user's, who could replace its files while the job runs. Root's folders are trusted.
Status CheckOwner(const std::string& path) {
  struct stat folder {};
  if (stat(path.c_str(), &folder) != 0 || folder.st_uid == geteuid() || folder.st_uid == 0) return {};
  return Invalid("the run directory " + path + " belongs to another user (" + std::to_string(folder.st_uid) +
                 "), who could change its files; give another --run-dir, or have it belong to you (chown)");
}

std::string Holder(const std::string& lock) {
  std::ifstream in(lock);
  std::string pid;
  return in >> pid ? " (process " + pid + ")" : "";
}

// Makes a folder with an unused name: several jobs may start within one second.
Result<std::string> MakeDefaultFolder(const std::string& job_name) {
  const std::string first = DefaultPath(job_name);
  if (Status made = MakeParents(first); !made.ok()) return Status(made.code(), made.message() + kGiveAnother);
  for (int number = 1; number <= kSameSecondMax; ++number) {
    std::string path = number == 1 ? first : first + "-" + std::to_string(number);
    if (mkdir(path.c_str(), 0700) == 0) {
      CAPSTAN_RETURN_IF_ERROR(SyncFolder("runs"));
      return path;
    }
    if (errno != EEXIST)
      return Unreachable("cannot make the folder " + path + ": " + std::strerror(errno) + kGiveAnother);
  }
  return Unreachable("cannot make the folder " + first + ": there are too many of this name" + kGiveAnother);
}

}  // namespace

Result<RunDirectory> RunDirectory::Create(std::string path, const std::string& job_name) {
  const bool is_default = path.empty();
  if (is_default) {
    CAPSTAN_ASSIGN_OR_RETURN(path, MakeDefaultFolder(job_name));
  } else {
    CAPSTAN_RETURN_IF_ERROR(CheckOwner(path));
    CAPSTAN_RETURN_IF_ERROR(CheckNothingForeign(path));  // before a lock file is made in a foreign folder
    CAPSTAN_RETURN_IF_ERROR(MakeRunFolder(path));
  }
  CAPSTAN_ASSIGN_OR_RETURN(RunDirectory directory, Lock(path, kLookSeconds));
  CAPSTAN_RETURN_IF_ERROR(ClearFailedStart(path));
  CAPSTAN_RETURN_IF_ERROR(directory.Prepare());
  directory.is_default_ = is_default;
  return directory;
}

bool RunDirectory::Discard() const {
  if (!is_default_ || FindRunContents(path_) == RunContents::kResults) return false;
  std::error_code error;
  fs::remove_all(path_, error);
  return !fs::exists(path_, error);
}

Result<RunDirectory> RunDirectory::Open(const std::string& path) {
  if (path.empty()) return Invalid("--resume goes on with a run: say which by --run-dir");
  if (std::error_code error; !fs::exists(path + "/snapshots/coordinator.log", error)) {
    return Invalid("the run directory " + path +
                   (HoldsRun(path)
                        ? " has lost snapshots/coordinator.log: bring it back from a copy, or begin a new run elsewhere"
                        : " holds no run that could be resumed; start one without --resume"));
  }
  CAPSTAN_RETURN_IF_ERROR(CheckOwner(path));
  CAPSTAN_ASSIGN_OR_RETURN(RunDirectory directory, Lock(path, kLockWaitSeconds));
  CAPSTAN_RETURN_IF_ERROR(directory.Prepare());
  return directory;
}

Result<RunDirectory> RunDirectory::Take(const std::string& path, const std::string& job_name, RunBegin begin) {
  return begin == RunBegin::kNew ? Create(path, job_name) : Open(path);
}

Result<RunDirectory> RunDirectory::Lock(const std::string& path, double wait_seconds) {
  Result<FileLock> lock = FileLock::Acquire(path + "/lock", wait_seconds);
  if (!lock.ok() && lock.status().code() == Code::kBusy) {
    return Invalid("the run directory " + path + " is in use by another job" + Holder(path + "/lock") +
                   "; give another --run-dir");
  }
  if (!lock.ok()) return Unreachable("cannot write into the run directory " + path + ": " + lock.status().message());
  return RunDirectory(path, std::move(*lock));
}

Result<RunDirectory> RunDirectory::Hold(const std::string& path) {
  Result<FileLock> lock = FileLock::Acquire(path + "/lock", 0);
  if (!lock.ok() && lock.status().code() == Code::kBusy) {
    return Refused("the job in " + path + " is running" + Holder(path + "/lock") + "; end it first");
  }
  if (!lock.ok()) return Unreachable("cannot write into the run directory " + path + ": " + lock.status().message());
  RunDirectory directory(path, std::move(*lock));
  CAPSTAN_RETURN_IF_ERROR(directory.WriteHolder());
  return directory;
}

Status RunDirectory::WriteHolder() const {
  (void)fchmod(lock_.descriptor(), 0644);  // lets other users see whether a job runs
  const std::string pid = std::to_string(getpid());
  if (ftruncate(lock_.descriptor(), 0) == 0 && pwrite(lock_.descriptor(), pid.data(), pid.size(), 0) >= 0) return {};
  return Unreachable("cannot write " + path_ + "/lock: " + std::strerror(errno));
}

Status RunDirectory::Prepare() const {
  CAPSTAN_RETURN_IF_ERROR(WriteHolder());
  for (const char* folder : {"/logs", "/pids", "/snapshots"}) CAPSTAN_RETURN_IF_ERROR(MakeRunFolder(path_ + folder));
  return {};
}

Status WritePid(const std::string& run_dir, const std::string& process, int pid) {
  CAPSTAN_RETURN_IF_ERROR(MakeRunFolder(run_dir + "/pids"));
  return WriteFileDurably(run_dir + "/pids/" + process, std::to_string(pid) + "\n");
}

}  // namespace capstan::cli
