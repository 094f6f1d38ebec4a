#include "cli/launch/member.h"

#include <signal.h>

#include <utility>
#include <vector>

#include "cli/launch/program_calls.h"
#include "cli/run/run_directory.h"

namespace capstan::cli {

Member::Member(ProgramCall call, std::uint32_t max_restarts) : call_(std::move(call)), budget_(max_restarts) {}

bool Member::is_coordinator() const { return name() == ProgramCalls::kCoordinator; }

bool Member::is_worker() const { return is_own() || call_.path.ends_with("/capstan-worker"); }

Status Member::Start(std::uint64_t steps_done) {
  CAPSTAN_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(call_));
  process_.emplace(std::move(process));
  restart_at_.reset();
  steps_at_start_ = steps_done;
  joined_ = false;
  refused_.reset();
  told_to_stop_ = false;
  failure_.clear();
  stop_asked_.reset();
  return {};
}

bool Member::PlanRestart(TimePoint now, std::uint64_t steps_done) {
  restart_at_ =
      budget_.Next(now, saw_steps(steps_done) ? RestartBudget::LastRun::kOfUse : RestartBudget::LastRun::kOfNoUse);
  return restart_at_.has_value();
}

void Member::WritePidFile(const std::string& run_dir, Screen* screen) {
  const bool failed_before = std::exchange(pid_file_missing_, false);
  const Status status = WritePid(run_dir, name(), process_->pid());
  if (status.ok()) return;
  pid_file_missing_ = true;
  if (!failed_before) screen->Line("warning: " + status.message() + "; it is tried again");
}

void Member::TellToStop() {
  told_to_stop_ = true;
  process_->Signal(SIGTERM);
}

void Member::NoteStopAsked(TimePoint now) {
  if (!stop_asked_) stop_asked_ = now;
}

void Member::ShowOutput(Screen* screen) {
  for (const std::string& line : process_->TakeOutput()) {
    const bool warns = line.starts_with("capstan: ");  // the client library prints nothing else in this form
    screen->Line(LabelOf(warns ? Severity::kWarning : Severity::kInfo) + name() + ": " + line);
  }
}

std::string Member::WithLastLines(const std::string& how) const {
  std::string message = how;
  const std::vector<std::string> lines = process_->LastLines(kLinesShown);
  message += lines.empty() ? "; its log is empty" : "; the last lines of its log:";
  for (const std::string& line : lines) message += "\n  " + line;
  return message;
}

Status Member::AsFailure(const std::string& how) const { return Unreachable(name() + " " + WithLastLines(how)); }

}  // namespace capstan::cli
