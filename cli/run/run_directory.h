// RunDirectory: the folder that a job leaves behind.
//
// Kind:   owned by one thread of the process that runs the job; held as long as the object lives.
// Fails:  kInvalid: in use by another process, it holds a run already, or something in it is not capstan's
//         (run_contents.h); kUnreachable: it cannot be written.
// Why:    two jobs in one folder would mix their steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/file_lock.h"
#include "common/base/status.h"

namespace capstan::cli {

struct Endpoints {
  std::string coordinator;                     // host:port
  std::map<std::string, std::string> metrics;  // by process
};

// kRollBack: as kResume, and where the coordinator's log is an old copy, it counts.
enum class RunBegin { kNew, kResume, kRollBack };

class RunDirectory {
 public:
  // Makes the folder and its parents, and locks it. Empty: runs/NAME-DATE-TIME, with -2, -3, ... behind it
  // when there is one.
  static Result<RunDirectory> Create(std::string path, const std::string& job_name);
  // One that holds a run, to go on with it. Waits a while for the processes of its former life to end.
  static Result<RunDirectory> Open(const std::string& path);
  // One that no job runs in now, to change what it holds. kRefused, naming the process that has it.
  static Result<RunDirectory> Hold(const std::string& path);
  // Create or Open.
  static Result<RunDirectory> Take(const std::string& path, const std::string& job_name, RunBegin begin);
  const std::string& path() const { return path_; }
  // Removes it where it was made under a default name and keeps nothing: a start that failed leaves nothing to look for.
  // Whether it did. It stays held, and is not used any more.
  bool Discard() const;
  std::string LogOf(const std::string& process) const { return path_ + "/logs/" + process + ".log"; }

 private:
  static Result<RunDirectory> Lock(const std::string& path, double wait_seconds);
  Status WriteHolder() const;
  Status Prepare() const;
  RunDirectory(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileLock lock_;
  bool is_default_ = false;  // nobody has chosen its name
};

// pids/PROCESS. The folder is made if need be.
Status WritePid(const std::string& run_dir, const std::string& process, int pid);

}  // namespace capstan::cli
