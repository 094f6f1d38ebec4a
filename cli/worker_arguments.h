// WorkerArguments: the command line of capstan-worker.
//
// Kind:   a value, and functions.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "common/config/job/metrics_section.h"
#include "worker/train/worker_process.h"

namespace capstan::cli {

struct WorkerArguments {
  train::WorkerOptions worker;
  MetricsSection metrics;
  std::string trace, flight;
  int events_fd = -1;
  bool allow_plaintext = false;
};

// Makes the command line, whose parsing writes to `arguments`.
CommandLine WorkerCommandLine(WorkerArguments* arguments);

}  // namespace capstan::cli
