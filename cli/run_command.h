// capstan status, capstan stop: inspect or stop a run from another terminal.
//
// Kind:   functions; main calls them once.
// Fails:  one message on stderr, such as for a run that does not exist, and an exit code other than 0.
#pragma once

#include <string>

#include "cli/view/job_target.h"

namespace capstan::cli {

struct StatusArguments {
  std::string word;  // a run directory or an address; empty: the run that is running, or else the newest
  PagesAccess access;
  std::string output = "table";
};

// Prints the state of a run. Returns the exit code.
int RunStatus(const StatusArguments& arguments);
// Stops the run as Ctrl-C does in its own terminal, and waits up to two minutes for its end: the job takes a last
// snapshot. Returns the exit code. An empty `run_dir` means the run under runs/ that is running. `output`: table or
// json.
int RunStop(const std::string& run_dir, const std::string& output);

}  // namespace capstan::cli
