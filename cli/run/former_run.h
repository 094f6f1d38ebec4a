// FindFormerRun: finds the earlier run in the directory of a coordinator that is started by hand.
//
// Kind:   functions of a run directory.
// Fails:  kInvalid: the directory holds a run with other settings; the message says how to go on.
// Why:    after a coordinator was killed, the same command starts it again.
#pragma once

#include <string>

#include "cli/run/run_directory.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

enum class FormerRun {
  kNone,        // no run, or a failed start with other settings
  kUnfinished,  // an unfinished run of this job
  kFinished,    // a finished run of this job
};

Result<FormerRun> FindFormerRun(const std::string& run_dir, const JobConfig& config, RunBegin begin = RunBegin::kNew);

// Removes the log of a job that failed before all its servers and a worker had joined. The job then starts from
// scratch, and its settings may have changed.
void ForgetFailedStart(const std::string& run_dir);

// Explains how to begin another run than the existing one.
std::string WordsForAnotherRun(const std::string& run_dir);

}  // namespace capstan::cli
