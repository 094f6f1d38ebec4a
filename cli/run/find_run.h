// FindRun: the run that a command refers to when the user names none.
//
// Kind:   functions; they change no file.
// Fails:  kInvalid: no such run; kUnreachable: the lock file cannot be opened, such as another user's.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Finds the run under runs/ whose coordinator wrote its log last; with `job_name`, only among the runs of that job.
Result<std::string> NewestRun(const std::string& job_name = "");
// Like NewestRun, but only among runs that `capstan launch` can continue: in those, servers and coordinator share one
// directory.
Result<std::string> NewestLaunchedRun(const std::string& job_name = "");
// Finds the run under runs/ that is running now; the newest if there are several.
Result<std::string> RunningRun();

// Returns `run_dir` if it is a folder; for an empty one, the run that is running, or else the newest.
Result<std::string> RunOrDefault(const std::string& run_dir);

// Returns the id of the process that has locked the run directory; 0 if none has.
Result<int> HolderOf(const std::string& run_dir);

}  // namespace capstan::cli
