// RunContents: the contents of a folder before a job begins in it: a run, a failed start, or files not capstan's.
//
// Kind:   functions; they only read, except that the log of a failed start is removed.
// Fails:  kInvalid, naming the contents and the next action.
// Why:    a job deletes or overwrites only files that capstan made and that hold nothing of value.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// Marks a run directory whose weights were imported.
inline constexpr char kImportedMark[] = "/snapshots/imported";

enum class RunContents {
  kNothing,  // no run, or a start that failed before all servers and a worker had joined
  kBegun,    // a job that had begun, with nothing on disk that a new one would not compute again
  kResults,  // steps, snapshots, acknowledged pushes, imported or final weights
};

RunContents FindRunContents(const std::string& run_dir);

// Whether the folder holds a run that has begun, or imported weights.
bool HoldsRun(const std::string& run_dir);

// Fails if the folder holds files or a run that a new run would damage. The folder need not exist. If it has a lock
// file, a run in it does not count here: ClearFailedStart reports that run.
Status CheckNothingForeign(const std::string& run_dir);

// Fails if the folder holds a run. Otherwise removes the log of a failed start, if there is one.
Status ClearFailedStart(const std::string& run_dir);

}  // namespace capstan::cli
