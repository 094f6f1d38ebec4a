// capstan launch: a whole job on this machine.
#pragma once

#include "cli/launch/arguments.h"

namespace capstan::cli {

// Runs the job and returns the exit code.
int RunLaunch(const LaunchArguments& arguments);

}  // namespace capstan::cli
