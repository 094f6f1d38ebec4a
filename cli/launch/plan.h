// LaunchPlan: what is known of a job, and settled, before anything of it is started.
//
// Kind:   a value.
// Fails:  kInvalid: a job file, a run directory or a program that is not as it has to be, and what to do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/arguments.h"
#include "cli/launch/own_program.h"
#include "common/base/status.h"
#include "common/config/job_config.h"

namespace capstan::cli {

struct LaunchPlan {
  EditableJobConfig config;
  std::string run_dir;             // empty: a new one
  std::vector<std::string> lines;  // what is to be said first
  std::optional<OwnProgram> program;
};

Result<LaunchPlan> MakePlan(const LaunchArguments& arguments);

}  // namespace capstan::cli
