// LaunchPlan: the facts and settings of a job that are fixed before any process starts.
//
// Kind:   a value.
// Fails:  kInvalid: an unsuitable job file, run directory or program.
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
  std::vector<std::string> lines;  // messages to print first
  std::optional<OwnProgram> program;
};

Result<LaunchPlan> MakePlan(const LaunchArguments& arguments);

}  // namespace capstan::cli
