// ServerArguments: the command line of capstan-server.
//
// Kind:   a value, and functions.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace capstan::cli {

struct ServerArguments {
  std::string job_file, join, run_dir, metrics_listen, trace, key_file;
  std::vector<std::string> overrides;
  int index = -1, events_fd = -1;
  double join_seconds = 60;
  bool coordinator = false, print_config = false, allow_plaintext = false;
  RunBegin begin = RunBegin::kNew;
};

// Makes the command line, whose parsing writes to `arguments`.
CommandLine ServerCommandLine(ServerArguments* arguments);

}  // namespace capstan::cli
