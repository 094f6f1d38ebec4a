// FindFormerRun: what a coordinator that is started by hand finds in its run directory.
//
// Kind:   pure function, but for reading files.
// Fails:  kInvalid, with the words to write: the directory holds a run of another job.
// Why:    the command that started a coordinator starts it again after it was killed.
#pragma once

#include <string>

#include "cli/run/run_directory.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

enum class FormerRun {
  kNone,        // or one that failed before its first step and is another job: nothing that would be lost
  kUnfinished,  // of this job
  kFinished,    // of this job
};

Result<FormerRun> FindFormerRun(const std::string& run_dir, const JobConfig& config, RunBegin begin = RunBegin::kNew);

// A job that failed before any server took part in it begins anew the next time, with other data or workers if need be.
void ForgetFailedStart(const std::string& run_dir);

// What to do for another run than the one that is there.
std::string WordsForAnotherRun(const std::string& run_dir);

}  // namespace capstan::cli
