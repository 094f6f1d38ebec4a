// LaunchArguments: the arguments of capstan launch.
//
// Kind:   a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run/run_directory.h"

namespace capstan::cli {

struct LaunchArguments {
  std::string capstan;  // the name under which capstan was called
  std::string job_file, run_dir, trace, keys;
  std::vector<std::string> overrides;
  std::vector<std::string> program;  // the user's own program and its arguments
  std::uint32_t max_restarts = 30;
  double end_seconds = 300;
  bool print_config = false, quiet = false, allow_plaintext = false;
  RunBegin begin = RunBegin::kNew;
};

}  // namespace capstan::cli
