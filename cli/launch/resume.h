// Resume: what is needed to continue a run: its directory, its settings, and the address at which programs expect it.
//
// Kind:   functions of a run directory, which they do not change.
// Fails:  kInvalid: no such run, or settings with which it cannot continue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job_config.h"

namespace capstan::cli {

struct ResumedJob {
  std::string run_dir;
  JobConfig config;                // the settings that now apply
  std::vector<std::string> lines;  // messages to print first
};

// Finds the run and its settings. An empty `run_dir` means the newest launched run under runs/, of that job if there is
// a `job_file`. An empty `job_file` means the one in the run directory.
Result<ResumedJob> LoadResumedJob(const std::string& job_file, const std::string& run_dir,
                                  std::vector<std::string> overrides);

// Returns the run's number of steps if it is done and `config` has the same number; otherwise nothing.
std::optional<std::uint64_t> StepsIfDone(const std::string& run_dir, const JobConfig& config);

// Returns the version of the run's newest snapshot; nothing if it has none.
std::optional<std::uint64_t> NewestSnapshotOf(const std::string& run_dir, const JobConfig& config);

// Whether the directory has a job to continue, and whether that job has a snapshot to continue from.
bool HasBegun(const std::string& run_dir);
bool HasSnapshot(const std::string& run_dir);

// Where the coordinator is to listen. A TCP address gets its earlier port, if `wanted` sets none and the port is free.
// `line`: a warning to print; empty: none.
struct ChosenAddress {
  std::string address, line;
};
ChosenAddress ChooseCoordinator(const std::string& wanted, const std::string& former);

}  // namespace capstan::cli
