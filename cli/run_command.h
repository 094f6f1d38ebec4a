// capstan status, capstan stop: inspect or stop a run from another terminal.
//
// Kind:   functions; main calls them once.
// Fails:  one message on stderr, such as for a run that does not exist, and an exit code other than 0.
#pragma once

#include <string>

namespace capstan::cli {

// Prints the state of a run. Returns the exit code. An empty `run_dir` means a run that is running, or else the newest
// one under runs/.
int RunStatus(const std::string& run_dir);
// Stops the run as Ctrl-C does in its own terminal, and waits up to two minutes for its end: the job takes a last
// snapshot. Returns the exit code. An empty `run_dir` means the run under runs/ that is running.
int RunStop(const std::string& run_dir);

}  // namespace capstan::cli
