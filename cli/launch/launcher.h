// Launcher: runs a whole job on this machine: starts its processes, watches them, starts again those that are killed,
// ends them together. Workers of a job with model.kind = "client" are programs of the user's own: it starts the one that
// it was given, or names the address that they connect to, and the coordinator waits for them.
//
// Kind:   used by main's thread, which must be the only one when processes are started.
// Limits: those of Ending for processes that were asked to end; then they are killed.
// Fails:  a process that says that it failed ends the job, with its message; one that is killed is started again, as
//         often as its RestartBudget has it. A worker that fails by itself while the job runs is set aside, and ends the
//         job only where no other is left. A coordinator that is silent for limits.stall ends the job; any other process
//         of ours that is, for half of that, is killed and started again, before the others give up. A program of the
//         user's own is started again when it fails, too, but not where it fails kFailuresMax times in a row before a
//         step of it.
// Why:    one event loop over signals, what processes tell and the clock; nothing polls faster than people read.
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
    std::uint32_t max_restarts = 30;  // of each process, within an hour
    RunBegin begin = RunBegin::kNew;
    std::string trace;                  // servers and workers: each its own file of this name and its; empty: none
    std::string coordinator;            // HOST:PORT that it listens on
    std::optional<OwnProgram> program;  // started as the workers
    double end_seconds = 300;           // that it may take to end by itself after the job
  };
  static constexpr std::chrono::seconds kOwnStopMax{1};  // from a stop of one of many processes to the launcher's own
  static constexpr std::size_t kLinesShown = 10;         // of the log of a process that died
  static constexpr int kFailuresMax = 3;

  // `binaries`: the folder of capstan-server and capstan-worker. All but `binaries` outlive the launcher.
  Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
           StopSignals* signals, Screen* screen);

  // Until the job is done, has failed or was stopped, and no process is left.
  Status Run();
  // Whether all steps are done, and the weights are written.
  bool job_done() const { return job_done_; }
  const Progress& progress() const { return progress_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Since when a process has not been heard, and when that is said again.
  struct Silence {
    std::optional<Clock::time_point> heard;  // none: it does not beat yet
    Clock::time_point next_report{};
    bool said = false;
  };
  // A process of the job, in whichever of its lives.
  struct Member {
    ProgramCall call;
    RestartBudget budget{0};
    std::optional<ChildProcess> process;
    std::optional<Clock::time_point> restart_at;
    Silence silence;
    std::uint64_t steps_at_start = 0;
    bool pid_missing = false;                     // its file could not be written
    bool told_to_stop = false;                    // by this launcher, in this life
    std::optional<Clock::time_point> stop_asked;  // by somebody else than this launcher, and not yet answered
    bool joined = false, ever_joined = false;     // kOwn: the coordinator has seen it, in this life or in any
    bool ready = false;                           // in any of its lives
    std::string failure;                          // that it has told of itself
    std::string set_aside;                        // why it is not started again while the job goes on; empty: it may be
    int failures = 0;                             // kOwn: in a row, before a step of it

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
  // False: it has died too often.
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
  // A worker has failed by itself: the job goes on without it, if it has begun and there are others.
  void SetAside(Member* member, const std::string& how);
  void SeeWhoIsLeft();
  void FailFor(const Member& member, const std::string& how);
  std::string WithLastLines(const Member& member, const std::string& how) const;
  // The coordinator beats: says that it does not, every limits.report, and fails after limits.stall.
  void WatchCoordinator(Clock::time_point now);
  // So do servers and workers of ours: one that does not is named, and killed after half of limits.stall.
  void WatchMembers(Clock::time_point now);
  void Watch(Clock::time_point now);
  void NoteHeard(Member* member, const Event& event);
  void ShowProgress(Clock::time_point now);
  // A process that somebody else asked to end does so, unless the whole job was asked to.
  void AnswerStops(Clock::time_point now);
  void TellToStop(Member* member);
  // The first failure is the one that counts.
  void Fail(Status failure);
  void End(Clock::time_point now);
  void EndLatecomers();
  void HurryCoordinator();
  // Says again whom a job that is done waits for.
  void ShowRemaining(Clock::time_point now);
  // The names of those that have not ended: all, or of one kind.
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
  bool nobody_left_ = false;          // of the programs that compute
  std::string why_nobody_;            // and why, where they failed
  std::uint64_t steps_at_begin_ = 0;  // of a former run
  bool job_done_ = false;
  bool hurried_ = false;  // the coordinator
  Clock::time_point next_plain_line_{}, next_remaining_line_{};
  Clock::time_point last_watch_{};
};

}  // namespace capstan::cli
