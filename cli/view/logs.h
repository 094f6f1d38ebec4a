// RunLogsCommand: the command capstan logs: prints the logs of a run's processes, and follows them.
//
// Kind:   function; main's thread.
// Limits: it follows until the job ends, a signal arrives, or nobody reads its output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace capstan::cli {

struct LogsArguments {
  // A run directory and the name of a process; both may be empty. A word alone that is no folder is a process of the
  // run that is running, or else of the newest.
  std::string run_dir, process;
  bool follow = false;
  std::optional<std::uint64_t> lines;  // the last ones of each log; nothing: all, or a few before following
  std::string output = "table";
};

// Returns the exit code.
int RunLogsCommand(const LogsArguments& arguments);

}  // namespace capstan::cli
