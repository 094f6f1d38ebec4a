// FindRun: the run that a command is about when its user names none.
//
// Kind:   functions; they look at folders below the current one, and change nothing.
// Fails:  kInvalid: there is none; kUnreachable: its lock is another user's and cannot be looked at.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Of those under runs/ that can be gone on with, the one that a job last worked in; with `job_name`, of jobs of that
// name.
Result<std::string> NewestRun(const std::string& job_name = "");
// The same of those that capstan launch has begun: the others' servers have directories of their own.
Result<std::string> NewestLaunchedRun(const std::string& job_name = "");
// The one that a job works in now; the newest of several.
Result<std::string> RunningRun();

// The process that holds the run directory; 0: none does.
Result<int> HolderOf(const std::string& run_dir);

}  // namespace capstan::cli
