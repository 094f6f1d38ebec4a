// RunDoctor: capstan doctor, which examines this machine, a job on it, and the way to a job's coordinator.
//
// Kind:   functions; main's thread.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/doctor/finding.h"

namespace capstan::cli {

struct DoctorArguments {
  std::string job_file, run_dir = "runs", coordinator, key_file, python = "python3", output = "text";
  std::vector<std::string> overrides;
};

Command DescribeDoctor(Command app, DoctorArguments* arguments);
// Returns the exit code: 0 if nothing is wrong, 1 if something will fail; warnings do not count.
int RunDoctor(const DoctorArguments& arguments);

// Prints findings as lines for people, or as a JSON object for programs.
std::string TextOf(const std::vector<Finding>& findings);
std::string JsonOf(const std::vector<Finding>& findings);

}  // namespace capstan::cli
