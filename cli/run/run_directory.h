// RunDirectory: the folder that holds a job's files.
//
// Kind:   owned by one thread of the process that runs the job; locked while the object lives.
// Fails:  kInvalid: another process uses it, it already holds a run, or it holds files that are not capstan's
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
  std::string coordinator;
  std::map<std::string, std::string> metrics;  // by process
};

// How a run begins. kRollBack is kResume for a coordinator whose log is an old copy: the job goes back to the log's
// newest snapshot even if shards know newer ones.
enum class RunBegin { kNew, kResume, kRollBack };

class RunDirectory {
 public:
  // Makes the folder and its parents, and locks it. An empty path means runs/NAME-DATE-TIME, with -2, -3, ... appended
  // if that exists.
  static Result<RunDirectory> Create(std::string path, const std::string& job_name);
  // Opens the directory of a run to continue it. If processes of an earlier start still hold it, waits up to 10 s for
  // their end.
  static Result<RunDirectory> Open(const std::string& path);
  // Locks a directory that no job uses, to change its contents. If a job uses it, returns kRefused and names the
  // process.
  static Result<RunDirectory> Hold(const std::string& path);
  // Calls Create for kNew, and Open otherwise.
  static Result<RunDirectory> Take(const std::string& path, const std::string& job_name, RunBegin begin);
  const std::string& path() const { return path_; }
  // Removes the directory if Create chose its name and it holds no results, so that a failed start leaves nothing
  // behind. Returns whether the directory is gone. If so, this object must not be used any more.
  bool Discard() const;
  std::string LogOf(const std::string& process) const { return path_ + "/logs/" + process + ".log"; }

 private:
  static Result<RunDirectory> Lock(const std::string& path, double wait_seconds);
  Status WriteHolder() const;
  Status Prepare() const;
  RunDirectory(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  FileLock lock_;
  bool is_default_ = false;  // whether Create chose the name
};

// Writes pids/PROCESS, and makes the folder if necessary.
Status WritePid(const std::string& run_dir, const std::string& process, int pid);

}  // namespace capstan::cli
