// Member: a process of the job, over all its restarts: its start, its pid file, its output and how it ended.
//
// Kind:   owned by the launcher's thread.
// Fails:  Start: the system gives no process. A pid file that cannot be written is a warning, and is tried again.
// Why:    the launcher's rules refer to members; only this class knows that a restart makes a new process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cli/launch/child_process.h"
#include "cli/launch/restart_budget.h"
#include "cli/launch/screen.h"
#include "common/base/status.h"

namespace capstan::cli {

class Member {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kLinesShown = 10;  // of the log of a process that died

  // `max_restarts`: how often the process is restarted within an hour, at most.
  Member(ProgramCall call, std::uint32_t max_restarts);

  const std::string& name() const { return call_.name; }
  ProgramKind kind() const { return call_.kind; }
  bool is_own() const { return call_.kind == ProgramKind::kOwn; }
  bool is_coordinator() const;
  bool is_worker() const;

  // Starts the process, for the first time or again. `steps_done`: how many steps the run has done by now. The
  // functions below may be called once Start has succeeded.
  Status Start(std::uint64_t steps_done);
  const ChildProcess& process() const { return *process_; }
  ChildProcess& process() { return *process_; }
  // Whether the run has done steps since this process was last started.
  bool saw_steps(std::uint64_t steps_done) const { return steps_done > steps_at_start_; }

  // The next start is by this call, of the same name.
  void SetCall(ProgramCall call) { call_ = std::move(call); }

  // Plans a restart. Returns false if the process has died too often.
  bool PlanRestart(TimePoint now, std::uint64_t steps_done);
  void CancelRestart() { restart_at_.reset(); }
  bool restarts() const { return restart_at_.has_value(); }
  bool restart_is_due(TimePoint now) const { return restart_at_ && now >= *restart_at_; }
  const RestartBudget& budget() const { return budget_; }
  // Whether the process has ended and no restart is planned.
  bool ended() const { return process_->ended() && !restart_at_; }

  void WritePidFile(const std::string& run_dir, Screen* screen);
  // Whether the last attempt to write the pid file failed. It is tried again, because a full disk may have room later.
  bool pid_file_missing() const { return pid_file_missing_; }

  // Sends the process SIGTERM.
  void TellToStop();
  // Whether TellToStop was called since the last start.
  bool told_to_stop() const { return told_to_stop_; }
  // Notes that the process has reported a stop signal that is not the launcher's, and that it waits for an answer.
  void NoteStopAsked(TimePoint now);
  void NoteStopAnswered() { stop_asked_.reset(); }
  const std::optional<TimePoint>& stop_asked() const { return stop_asked_; }

  // For a worker: whether it has joined the job since its last start, and whether it ever has.
  void NoteJoined() { joined_ = ever_joined_ = true; }
  bool joined() const { return joined_; }
  bool ever_joined() const { return ever_joined_; }
  // Whether the process has reported after any of its starts that it is ready.
  void NoteReady() { ready_ = true; }
  bool ready() const { return ready_; }
  // The failure that the process itself reported since its last start; empty: none.
  void NoteFailure(const std::string& text) { failure_ = text; }
  const std::string& failure() const { return failure_; }

  // For kOwn: shows the lines that the program has printed since the last call.
  void ShowOutput(Screen* screen);
  // Returns `how` with the last lines of the log.
  std::string WithLastLines(const std::string& how) const;
  // Returns the job's failure if this member's end causes one. `how`: a text such as "exited with code 1".
  Status AsFailure(const std::string& how) const;

 private:
  ProgramCall call_;
  RestartBudget budget_;
  std::optional<ChildProcess> process_;
  std::optional<TimePoint> restart_at_;
  std::uint64_t steps_at_start_ = 0;
  bool pid_file_missing_ = false;
  bool told_to_stop_ = false;
  std::optional<TimePoint> stop_asked_;
  bool joined_ = false, ever_joined_ = false;
  bool ready_ = false;
  std::string failure_;
};

}  // namespace capstan::cli
