// capstan launch: a whole job on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_directory.h"

namespace capstan::cli {

struct LaunchArguments {
  std::string job_file, run_dir, trace;
  std::vector<std::string> overrides;
  std::uint32_t max_restarts = 100;
  bool print_config = false;
  RunBegin begin = RunBegin::kNew;
};

// Returns the exit code.
int RunLaunch(const LaunchArguments& arguments);

}  // namespace capstan::cli
