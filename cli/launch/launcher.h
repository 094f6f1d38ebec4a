// Launcher: runs a whole job on this machine: starts its processes, watches them, restarts those that are killed, and
// ends them together. Workers of a job with model.kind = "client" are programs of the user's own: the launcher starts
// the program that it was given. Without one it prints the address to connect to, and the coordinator waits.
//
// Kind:   used by main's thread, which must be the only thread when processes are started.
// Limits: Ending's, for processes that were asked to end; after that they are killed.
// Fails:  a process that reports a failure ends the job, with its message. A process that is killed is restarted, as
//         often as its RestartBudget allows. A worker that fails by itself while the job runs is set aside, and ends
//         the job only if no other worker is left. A coordinator that is silent for limits.stall ends the job. Any
//         other process of ours that is silent for half of that is killed and restarted, before the other processes
//         give up. A user's program is also restarted when it fails, unless it fails kFailuresMax times in a row
//         without a step.
// Why:    one event loop for signals, events of processes, and the clock; it polls no faster than a user reads.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/child_process.h"
#include "cli/launch/ending.h"
#include "cli/launch/own_program.h"
#include "cli/launch/restart_budget.h"
#include "cli/launch/screen.h"
#include "cli/report/progress.h"
#include "cli/run/process.h"
#include "cli/run/run_directory.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

class Launcher {
 public:
  struct Options {
    std::uint32_t max_restarts = 30;  // for each process, within an hour
    RunBegin begin = RunBegin::kNew;
    std::string trace;                  // for servers and workers: each adds its name to this file name; empty: none
    std::string coordinator;            // HOST:PORT on which the coordinator listens
    std::optional<OwnProgram> program;  // started as the workers
    double end_seconds = 300;           // the program may take so long to end by itself after the job
  };
  static constexpr std::chrono::seconds kOwnStopMax{1};  // from a member's stop signal to the launcher's own
  static constexpr std::size_t kLinesShown = 10;         // of the log of a process that died
  static constexpr int kFailuresMax = 3;

  // `binaries`: the folder of capstan-server and capstan-worker. All other arguments outlive the launcher.
  Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
           StopSignals* signals, Screen* screen);

  // Returns when the job is done, has failed or was stopped, and no process is left.
  Status Run();
  // Whether all steps are done and the weights are written.
  bool job_done() const { return job_done_; }
  const Progress& progress() const { return progress_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  using Clock = std::chrono::steady_clock;

  // When a process was last heard, and when its silence is reported again.
  struct Silence {
    std::optional<Clock::time_point> last_beat;  // none: no beat yet
    Clock::time_point next_report{};
    bool said = false;
  };
  // A process of the job, over all its restarts.
  struct Member {
    ProgramCall call;
    RestartBudget budget{0};
    std::optional<ChildProcess> process;
    std::optional<Clock::time_point> restart_at;
    Silence silence;
    std::uint64_t steps_at_start = 0;
    bool pid_missing = false;                     // writing its pid file failed
    bool told_to_stop = false;                    // whether this launcher asked it to stop since its last start
    std::optional<Clock::time_point> stop_asked;  // when another sender asked it to stop, until that is answered
    bool joined = false, ever_joined = false;     // for kOwn: whether it joined the job, since its last start or ever
    bool ready = false;                           // whether it was ready after any of its starts
    std::string failure;                          // the failure that the process itself reported
    std::string set_aside;                        // why it is not restarted; empty: it may be
    int failures = 0;                             // for kOwn: failures in a row without a step

    const std::string& name() const { return call.name; }
    bool is_own() const { return call.kind == ProgramKind::kOwn; }
    bool is_worker() const { return is_own() || call.path.ends_with("/capstan-worker"); }
    bool ended() const { return process->ended() && !restart_at; }
  };

  Status Add(ProgramCall call);
  Status AddOurs(const std::string& name, const std::string& program, std::vector<std::string> arguments);
  Status Start(Member* member);
  void WritePidOf(Member* member);
  void WriteMissingPids();
  // Plans a restart of the member. Returns false if it has died too often.
  bool Restart(Member* member, Clock::time_point now);
  void StartDueMembers(Clock::time_point now);
  std::vector<std::string> TraceArguments(const std::string& name) const;
  Status StartCoordinator();
  Status StartMembers();
  Status StartServers();
  Status StartWorkers();
  Status StartOwnPrograms();
  void Wait();
  void TakeEvents();
  void OnEvent(const std::string& name, const Event& event);
  void OnReady(const std::string& name, const Event& event);
  void OnFailed(const std::string& name, const std::string& text);
  void NoteStopAsked(const std::string& name);
  void NoteJoined(const std::string& notice);
  void NoteRefused(const std::string& notice);
  void ShowOutput(Member* member);
  void ReapChildren(Clock::time_point now);
  void SeeEnd(Member* member, Clock::time_point now);
  void SeeOwnEnd(Member* member, Clock::time_point now);
  void SeeGoodOwnEnd(const Member& member);
  static std::string AfterRestarts(const Member& member);
  // Handles a worker that failed by itself: the job continues without it, if the job has begun and has other workers.
  void SetAside(Member* member, const std::string& how);
  void SeeWhoIsLeft();
  void FailFor(const Member& member, const std::string& how);
  std::string WithLastLines(const Member& member, const std::string& how) const;
  // Reports, every limits.report, that the coordinator does not beat, and fails after limits.stall.
  void WatchCoordinator(Clock::time_point now);
  // Reports servers and workers of ours that are silent, and kills a process that is silent for half of limits.stall.
  void WatchMembers(Clock::time_point now);
  void Watch(Clock::time_point now);
  void NoteBeat(Member* member, const Event& event);
  void ShowProgress(Clock::time_point now);
  // Answers processes that another sender asked to stop: they may, unless the whole job was asked to stop.
  void AnswerStops(Clock::time_point now);
  void TellToStop(Member* member);
  // Fails the job. Only the first failure counts.
  void Fail(Status failure);
  void End(Clock::time_point now);
  void EndLatecomers();
  void HurryCoordinator();
  // Reports again which processes a finished job waits for.
  void ShowRemaining(Clock::time_point now);
  // Names the processes that have not ended, of all kinds or of one.
  std::string Remaining(std::optional<ProgramKind> kind = {}) const;
  bool AllEnded() const;

  const JobConfig& config_;
  const RunDirectory& directory_;
  const std::string binaries_;
  const Options options_;
  StopSignals* const signals_;
  Screen* const screen_;
  Progress progress_;
  Endpoints endpoints_;
  std::vector<Member> members_;  // the coordinator first
  bool all_were_ready_ = false;
  Status failure_;
  Ending ending_;
  bool nobody_left_ = false;          // whether no worker is left
  std::string why_nobody_;            // why no worker is left, if any was set aside
  std::uint64_t steps_at_begin_ = 0;  // how many steps the run had before this launch
  bool job_done_ = false;
  bool hurried_ = false;  // whether HurryCoordinator has acted
  Clock::time_point next_plain_line_{}, next_remaining_line_{};
  Clock::time_point last_watch_{};
};

}  // namespace capstan::cli
