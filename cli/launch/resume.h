// Resume: what a run that is gone on with is made of: its directory, its settings, the address where programs wait for it.
//
// Kind:   functions of a run directory; nothing is changed there.
// Fails:  kInvalid: no such run, or settings with which it cannot go on.
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
  JobConfig config;                // as it goes on
  std::vector<std::string> lines;  // what is to be said of it first
};

// An empty `run_dir` is the newest under runs/. An empty `job_file` is the run directory's own.
Result<ResumedJob> LoadResumedJob(const std::string& job_file, const std::string& run_dir,
                                  std::vector<std::string> overrides);

// The number of steps after which the run was done, where it is and its job has no more of them.
std::optional<std::uint64_t> StepsIfDone(const std::string& run_dir, const JobConfig& config);

// Whether there is a job that can be gone on with, and whether it has a snapshot to go on from.
bool HasBegun(const std::string& run_dir);
bool HasSnapshot(const std::string& run_dir);

// Where the coordinator is to listen: where it did before, unless the job file has a port. `line`: what is to be said.
struct ChosenAddress {
  std::string address, line;
};
ChosenAddress ChooseCoordinator(const std::string& wanted, const std::string& former);

}  // namespace capstan::cli
