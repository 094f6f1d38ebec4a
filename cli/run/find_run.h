// FindRun: the run that a command refers to when the user names none.
//
// Kind:   functions; they read folders below the current one and change nothing.
// Fails:  kInvalid: no such run; kUnreachable: another user owns its lock file, which cannot be read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// The most recently used of the runs under runs/ that can be continued; with `job_name`, only runs of that job.
Result<std::string> NewestRun(const std::string& job_name = "");
// The same among runs that capstan launch began: servers of other runs have separate directories.
Result<std::string> NewestLaunchedRun(const std::string& job_name = "");
// The run that a job uses now; the newest if there are several.
Result<std::string> RunningRun();

// The process that holds the run directory; 0: none.
Result<int> HolderOf(const std::string& run_dir);

}  // namespace capstan::cli
