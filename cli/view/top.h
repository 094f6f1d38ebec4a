// RunTop: the command capstan top: the picture of a job, drawn again and again.
//
// Kind:   function; main's thread. On a terminal it has the terminal's second screen until it ends.
// Limits: it ends with the job, after `count` pictures, or when the coordinator has not answered for
//         `patience_seconds`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/view/job_target.h"

namespace capstan::cli {

struct TopOptions {
  std::string word;  // a run directory or an address; empty: the run that is running, or else the newest
  PagesAccess access;
  std::string output = "table";
  double every_seconds = 1;
  std::optional<std::uint64_t> count;  // nothing: no limit; without a terminal, one picture
  int patience_seconds = 600;
};

// Returns the exit code.
int RunTop(const TopOptions& options);

}  // namespace capstan::cli
