// FindFormerRun: finds the run in the directory of a coordinator that was started by hand.
//
// Kind:   pure function, except that it reads files.
// Fails:  kInvalid, with the command to use: the directory holds a run of another job.
// Why:    after a coordinator was killed, the same command starts it again.
#pragma once

#include <string>

#include "cli/run/run_directory.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

enum class FormerRun {
  kNone,        // no run, or one of another job that failed before its first step
  kUnfinished,  // an unfinished run of this job
  kFinished,    // a finished run of this job
};

Result<FormerRun> FindFormerRun(const std::string& run_dir, const JobConfig& config, RunBegin begin = RunBegin::kNew);

// Removes the log of a job that failed before any server took part. The job then starts from scratch, with other data
// or workers if necessary.
void ForgetFailedStart(const std::string& run_dir);

// Explains how to begin another run than the existing one.
std::string WordsForAnotherRun(const std::string& run_dir);

}  // namespace capstan::cli
