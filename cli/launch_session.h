// LaunchSession: what `capstan launch` and `capstan run` do around a Launcher: checks, run directory, keys, and the
// last messages.
//
// Kind:   owned by main's thread; made before any other thread.
// Fails:  Check: kInvalid and others; nothing was changed on disk. Open: the run directory cannot be used.
#pragma once

#include <optional>
#include <string>

#include "cli/launch/arguments.h"
#include "cli/launch/own_program.h"
#include "cli/launch/plan.h"
#include "cli/launch/screen.h"
#include "cli/launch/script_start.h"
#include "cli/report/progress.h"
#include "cli/run/exposure.h"
#include "cli/run/process.h"
#include "cli/run/run_directory.h"
#include "common/base/status.h"
#include "common/config/job_config.h"

namespace capstan::cli {

class LaunchSession {
 public:
  // `arguments` outlives this object.
  explicit LaunchSession(const LaunchArguments& arguments);

  // Checks the job's addresses, the keys that the arguments name, and this machine.
  Status Check(const JobConfig& config) const;
  // Makes or opens the run directory; an empty `run_dir` means a new one. Makes the run's keys if the job needs some.
  Status Open(const std::string& run_dir, const JobConfig& config);
  // Runs the job and prints how it went. `scripts`: copies of the plan's program that wait for this job. Returns the
  // exit code.
  int Run(LaunchPlan plan, std::optional<StartedScripts> scripts);
  // Prints why the run ended before it had a job; removes the run directory where it holds nothing. Returns the exit
  // code.
  int FailEarly(const Status& status);

  const RunDirectory& directory() const { return *directory_; }
  const std::string& keys() const { return keys_; }
  Plaintext plaintext() const { return plaintext_; }
  StopSignals* signals() { return &signals_; }
  Screen* screen() { return &screen_; }

 private:
  struct Outcome {
    Status status;
    bool done = false;
    double seconds = 0;
  };

  // Writes what a run directory has from the beginning.
  Status Fill(LaunchPlan* plan) const;
  Status MakeKeys(const JobConfig& config);
  int End(const LaunchPlan& plan, const Progress& progress, const Outcome& outcome);
  // Ends the run of a job with kOpenEndedSteps whose programs have ended: its steps are those that it has done.
  int Conclude(LaunchPlan plan, const Progress& progress, Outcome* outcome);

  const LaunchArguments& arguments_;
  const Plaintext plaintext_;
  StopSignals signals_;
  Screen screen_;
  std::optional<RunDirectory> directory_;
  std::string keys_;       // folder of the job's key files; empty: it needs none
  bool own_keys_ = false;  // they are of this run
};

// Prints "capstan: MESSAGE" on stderr; returns `code`.
int FailLaunch(const std::string& message, int code);

}  // namespace capstan::cli
