// RunCoordinatorProcess, RunServerProcess: what capstan-server does after parsing its command line; they return its
// exit code.
//
// Kind:   called once, from main's thread, before other threads are started.
// Fails:  with a message on stderr, and to the launcher if there is one.
#pragma once

#include <string>

#include "cli/run/events.h"
#include "cli/run/exposure.h"
#include "cli/run/process.h"
#include "cli/run/run_directory.h"
#include "common/config/job_config.h"

namespace capstan::cli {

struct ServerProcessOptions {
  JobConfig config;
  std::string run_dir;              // empty (only without a launcher): runs/NAME-coordinator or runs/NAME-server-INDEX
  std::string metrics_listen;       // empty: metrics.listen of the job file
  std::string trace;                // server: file for its trace; empty: none
  std::uint32_t index = 0;          // index of the server
  RunBegin begin = RunBegin::kNew;  // coordinator: how the run begins
  Plaintext plaintext = Plaintext::kRefused;
  std::string key_file = {};  // with the key of this process; read only if the job has keys
};

int RunCoordinatorProcess(const ServerProcessOptions& options, const EventWriter& events);
int RunServerProcess(const ServerProcessOptions& options, const EventWriter& events);

}  // namespace capstan::cli
