// FindRun: the run that a command refers to when the user names none.
//
// Kind:   functions; they read folders below the current one and change nothing.
// Fails:  kInvalid: no such run; kUnreachable: another user owns its lock file, which cannot be read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Finds the most recently used of the runs under runs/ that can be continued; with `job_name`, only of that job's runs.
Result<std::string> NewestRun(const std::string& job_name = "");
// Finds the most recently used of the runs that capstan launch began; with `job_name`, only of that job's runs. Servers
// of other runs have separate directories.
Result<std::string> NewestLaunchedRun(const std::string& job_name = "");
// Finds the run that a job uses now; the newest if there are several.
Result<std::string> RunningRun();

// Returns the id of the process that holds the run directory; 0 if none does.
Result<int> HolderOf(const std::string& run_dir);

}  // namespace capstan::cli
