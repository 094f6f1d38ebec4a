// What launch says last of a run: how to go on with it, or to train longer.
//
// Kind:   functions of values; they look whether files are there.
#pragma once

#include <cstdint>
#include <string>

#include "cli/launch/arguments.h"
#include "common/base/status.h"

namespace capstan::cli {

// The whole call that goes on with the run, as it is typed. `settings`: words before those of the user's own program.
std::string GoOnCall(const LaunchArguments& arguments, const std::string& run_dir, const std::string& settings = "");

// Of a run that had all its `steps` before it was to be gone on with.
std::string DoneAlready(const LaunchArguments& arguments, const std::string& run_dir, std::uint64_t steps);

// Of a run that ended before it was done. `stops`: times that it was asked to stop.
std::string WhyItEnded(const LaunchArguments& arguments, const std::string& run_dir, const Status& status, int stops);

}  // namespace capstan::cli
