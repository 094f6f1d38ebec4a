// RequestView: asks a coordinator for the state of its job, with the job file. RequestJobFile: the same for a server
// that was started without a job file.
//
// Kind:   called from main's thread, before other threads are started.
// Fails:  kTimeout: no coordinator answers in time; kRefused: the coordinator refuses, or a signal ends the wait.
// Why:    a job has one file, on the coordinator's machine.
#pragma once

#include <functional>
#include <string>

#include "cli/run/process.h"
#include "cli/run/process_keys.h"
#include "common/base/types.h"
#include "common/wire/messages/view.h"

namespace capstan::cli {

struct JobRequest {
  std::string coordinator;                   // its address
  std::string name;                          // name of this process in messages
  double seconds = 60;                       // limit for the answer
  std::shared_ptr<const KeyPair> keys = {};  // of this process; null: it has none
};

// Returns the coordinator's answer, whose job_file is not empty. Calls `look` while it waits, about every 100 ms; an
// error that it returns ends the wait.
Result<View> RequestView(const JobRequest& request, const std::function<Status(Instant now)>& look);
// Returns the job file's text. Prints every 5 s that it waits. Stops waiting when a stop signal arrives.
Result<std::string> RequestJobFile(const JobRequest& request, StopSignals* signals);

}  // namespace capstan::cli
