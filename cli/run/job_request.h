// RequestJobFile: asks a coordinator for its job file, for a server started without one.
//
// Kind:   called once, from main's thread, before other threads are started.
// Fails:  kTimeout: no coordinator answers in time; kRefused: the coordinator refuses, or a signal ends the wait.
// Why:    a job has one file, on the coordinator's machine.
#pragma once

#include <string>

#include "cli/run/process.h"
#include "cli/run/process_keys.h"

namespace capstan::cli {

struct JobRequest {
  std::string coordinator;                   // its address
  std::string name;                          // name of this process in messages
  double seconds = 60;                       // limit for the answer
  std::shared_ptr<const KeyPair> keys = {};  // of this process; null: it has none
};

// Returns the job file's text. Prints every 5 s that it waits. Stops waiting when a stop signal arrives.
Result<std::string> RequestJobFile(const JobRequest& request, StopSignals* signals);

}  // namespace capstan::cli
