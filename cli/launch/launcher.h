// Launcher: runs a whole job on this machine: starts its processes, watches them, starts again those that are killed,
// ends them together. Workers of a job with model.kind = "client" are programs of the user's own: it names the address
// that they connect to, and the coordinator waits for them.
//
// Kind:   used by main's thread, which must be the only one when processes are started.
// Limits: kStopSeconds for processes that were asked to end; then they are killed.
// Fails:  a process that says that it failed ends the job, with its message; one that is killed is started again, at
//         most max_restarts times in all. So does a coordinator that is silent for limits.stall: of all others the
//         coordinator says whom it waits for.
// Why:    one event loop over signals, the processes' events and the clock; nothing polls faster than people read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/child_process.h"
#include "cli/launch/progress.h"
#include "cli/launch/screen.h"
#include "cli/process.h"
#include "cli/run_directory.h"
#include "common/job/forward.h"

namespace capstan::cli {

class Launcher {
 public:
  struct Options {
    std::uint32_t max_restarts = 100;  // of all processes together
    RunBegin begin = RunBegin::kNew;
    std::string trace;  // servers and workers: each its own file of this name and its; empty: none
  };
  static constexpr int kStopSeconds = 10;
  static constexpr int kLastSnapshotSeconds = 70;  // for the coordinator, which takes it before it ends
  static constexpr std::chrono::milliseconds kRestartFirst{100}, kRestartLongest{2000};
  static constexpr std::size_t kLinesShown = 10;  // of the log of a process that died

  // `binaries`: the folder of capstan-server and capstan-worker. All but `binaries` outlive the launcher.
  Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
           StopSignals* signals, Screen* screen);

  // Until the job is done, has failed or was stopped, and no process is left.
  Status Run();
  const Progress& progress() const { return progress_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  using Clock = std::chrono::steady_clock;

  // A process of the job, in whichever of its lives.
  struct Member {
    std::string name, program;
    std::vector<std::string> arguments;
    std::optional<ChildProcess> process;
    std::optional<Clock::time_point> restart_at;
    std::chrono::milliseconds next_wait = kRestartFirst;
    std::uint64_t steps_at_start = 0;

    bool ended() const { return process->ended() && !restart_at; }
  };

  Status Add(const std::string& name, const std::string& program, std::vector<std::string> arguments);
  Status Start(Member* member);
  void Restart(Member* member, Clock::time_point now);
  void StartDueMembers(Clock::time_point now);
  std::vector<std::string> TraceArguments(const std::string& name) const;
  Status StartCoordinator();
  Status StartMembers();
  void Wait();
  void TakeEvents();
  void OnEvent(const std::string& name, const Event& event);
  void OnReady(const std::string& name, const Event& event);
  void ReapChildren(Clock::time_point now);
  void SeeEnd(Member* member, Clock::time_point now);
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
  std::vector<Member> members_;  // the coordinator first
  const Options options_;
  std::uint32_t restarts_ = 0;
  std::size_t ready_ = 0;
  Status failure_;
  bool stopping_ = false;
  bool last_snapshot_asked_ = false;
  Clock::time_point kill_at_{}, next_plain_line_{};
  Clock::time_point coordinator_heard_{}, next_report_{};
  bool silence_said_ = false;
};

}  // namespace capstan::cli
