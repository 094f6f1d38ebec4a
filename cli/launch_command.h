// capstan launch: runs a whole job on this machine.
#pragma once

#include "cli/launch/arguments.h"

namespace capstan::cli {

// Runs the job, or with --print-config prints its settings. Returns the exit code.
int RunLaunch(const LaunchArguments& arguments);

}  // namespace capstan::cli
