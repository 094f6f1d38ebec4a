// The last messages of `capstan launch` about a run: how it ended, and how to continue it or train longer.
//
// Kind:   functions; some read files of the run directory.
#pragma once

#include <cstdint>
#include <string>

#include "cli/launch/arguments.h"
#include "common/base/status.h"

namespace capstan::cli {

// Returns the command that continues the run. `settings`: words to put before the user's own program.
std::string GoOnCall(const LaunchArguments& arguments, const std::string& run_dir, const std::string& settings = "");

// Returns the message for a run that was to be continued and had done all its `steps` already.
std::string DoneAlready(const LaunchArguments& arguments, const std::string& run_dir, std::uint64_t steps);

// Returns the message for a run that ended before it was done. `stops`: how often the user asked it to stop.
std::string WhyItEnded(const LaunchArguments& arguments, const std::string& run_dir, const Status& status, int stops);

}  // namespace capstan::cli
