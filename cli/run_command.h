// capstan status, capstan stop: inspect or stop a run from another terminal.
//
// Kind:   functions; main calls them once.
// Fails:  no such run, or no job runs there: one message with the next action.
#pragma once

#include <string>

namespace capstan::cli {

// Prints the state of a run. Both functions return the exit code. An empty `run_dir` means the run of a running job, or
// else the newest under runs/.
int RunStatus(const std::string& run_dir);
// Does what Ctrl-C does in the run's own terminal: the job takes a last snapshot. Returns when the run has ended.
int RunStop(const std::string& run_dir);

}  // namespace capstan::cli
