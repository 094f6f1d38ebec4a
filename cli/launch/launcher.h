// Launcher: runs a whole job on this machine: starts its processes, watches them, ends them together.
//
// Kind:   used by main's thread, which must be the only one when processes are started.
// Limits: kStopSeconds for processes that were asked to end; then they are killed.
// Fails:  the first thing that goes wrong ends the job; its message is outcome's. A coordinator that is silent for
//         limits.stall is such a thing: of all others the coordinator says whom it waits for.
// Why:    one event loop over signals, the processes' events and the clock; nothing polls faster than people read.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "cli/launch/child_process.h"
#include "cli/launch/progress.h"
#include "cli/launch/screen.h"
#include "cli/process.h"
#include "cli/run_directory.h"
#include "common/job_config.h"

namespace capstan::cli {

class Launcher {
 public:
  static constexpr int kStopSeconds = 10;
  static constexpr std::size_t kLinesShown = 10;  // of the log of a process that died

  // `binaries`: the folder of capstan-server and capstan-worker. All but `binaries` outlive the launcher.
  Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, StopSignals* signals,
           Screen* screen);

  // Until the job is done, has failed or was stopped, and no process is left.
  Status Run();
  const Progress& progress() const { return progress_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  using Clock = std::chrono::steady_clock;

  Status Start(const std::string& name, const std::string& program, std::vector<std::string> arguments);
  Status StartCoordinator();
  Status StartMembers();
  void Wait();
  void TakeEvents();
  void OnEvent(const std::string& name, const Event& event);
  void OnReady(const std::string& name, const Event& event);
  void ReapChildren();
  // The coordinator beats: says that it does not, every limits.report, and fails after limits.stall.
  void WatchCoordinator(Clock::time_point now);
  void ShowProgress(Clock::time_point now);
  // The first failure is the one that counts.
  void Fail(Status failure);
  void StopAll(Clock::time_point now);
  bool AllEnded() const;

  const JobConfig& config_;
  const RunDirectory& directory_;
  const std::string binaries_;
  StopSignals* const signals_;
  Screen* const screen_;
  Progress progress_;
  Endpoints endpoints_;
  std::map<std::string, std::vector<std::string>> server_addresses_;
  std::vector<ChildProcess> children_;  // the coordinator first
  std::size_t ready_ = 0;
  Status failure_;
  bool stopping_ = false;
  Clock::time_point kill_at_{}, next_plain_line_{};
  Clock::time_point coordinator_heard_{}, next_report_{};
  bool silence_said_ = false;
};

}  // namespace capstan::cli
