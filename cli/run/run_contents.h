// What a folder holds before a job begins in it: a run, a start that failed, or files that are not capstan's.
//
// Kind:   functions; they read files, and change none but the log of a start that failed.
// Fails:  kInvalid, naming what is there and what to do.
// Why:    a job deletes and overwrites only what a start of its own kind has made and nobody can miss.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan::cli {

// In a run directory whose weights were not made by steps of its own.
inline constexpr char kImportedMark[] = "/snapshots/imported";

enum class RunContents {
  kNothing,  // no run, or a start that failed before all servers and a worker were there
  kBegun,    // a job that had begun, and has nothing on disk that a new one would not compute again
  kKept,     // steps, snapshots, acknowledged pushes, imported or final weights
};

RunContents FindRunContents(const std::string& run_dir);

// Whether a run has begun in it, or weights were imported.
bool HoldsRun(const std::string& run_dir);

// Ok where nothing in the folder, which need not exist, is in the way of a new run's own files.
Status CheckNothingForeign(const std::string& run_dir);

// Ok where no run is in it. Then the log of a start that failed is removed.
Status ClearFailedStart(const std::string& run_dir);

}  // namespace capstan::cli
