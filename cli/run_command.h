// capstan status, capstan stop: a run as seen from another terminal.
//
// Kind:   functions; called once, from main.
// Fails:  no such run, or nothing runs there: one message, with what to do.
#pragma once

#include <string>

namespace capstan::cli {

// Both return the exit code. An empty `run_dir` is that of a job that runs now, or else of the newest under runs/.
int RunStatus(const std::string& run_dir);
// What Ctrl-C does in the run's own terminal: a last snapshot is taken. Returns when the run has ended.
int RunStop(const std::string& run_dir);

}  // namespace capstan::cli
