// capstan launch: a whole job on this machine.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

struct LaunchArguments {
  std::string job_file, run_dir;
  std::vector<std::string> overrides;
  bool print_config = false;
};

// Returns the exit code.
int RunLaunch(const LaunchArguments& arguments);

}  // namespace capstan::cli
