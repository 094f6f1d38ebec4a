#include "cli/launch/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "cli/run/address.h"
#include "cli/run/shell_words.h"
#include "cli/run/trace_file.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

constexpr int kRefreshMs = 200;
constexpr int kRestartPollMs = 50;
constexpr std::chrono::seconds kPlainEvery{5};
constexpr double kSilenceSecondsMin = 3 * kBeatMs / 1000.0;  // a shorter silence may only mean a busy machine
constexpr char kCoordinator[] = "coordinator";

std::chrono::steady_clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

std::string ServerName(std::uint32_t index) { return "server-" + std::to_string(index); }
std::string WorkerName(std::uint32_t index) { return "worker-" + std::to_string(index); }

}  // namespace

Launcher::Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
                   StopSignals* signals, Screen* screen)
    : config_(config),
      directory_(directory),
      binaries_(std::move(binaries)),
      options_(std::move(options)),
      signals_(signals),
      screen_(screen),
      progress_(directory.path() + "/metrics.jsonl", config.steps()),
      ending_(options_.program ? std::chrono::duration<double>(options_.end_seconds) : Ending::kStopSeconds) {}

Status Launcher::Run() {
  if (options_.begin != RunBegin::kNew) progress_.Update();  // the steps of the earlier run
  steps_at_begin_ = progress_.steps_done();
  if (Status status = StartCoordinator(); !status.ok()) Fail(std::move(status));
  while (!AllEnded()) {
    Wait();
    const Clock::time_point now = Clock::now();
    const std::vector<std::string> validations = progress_.Update();  // before the events, so steps appear first
    TakeEvents();
    ReapChildren(now);
    StartDueMembers(now);
    WriteMissingPids();
    Watch(now);
    for (const std::string& line : validations) screen_->Line(line);
    ShowProgress(now);
    End(now);
    AnswerStops(now);
  }
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  return failure_;
}

// ---- starting ------------------------------------------------------------------------------------------------------

Status Launcher::Add(ProgramCall call) {
  Member member;
  member.call = std::move(call);
  member.budget = RestartBudget(options_.max_restarts);
  CAPSTAN_RETURN_IF_ERROR(Start(&member));
  members_.push_back(std::move(member));
  return {};
}

Status Launcher::AddOurs(const std::string& name, const std::string& program, std::vector<std::string> arguments) {
  return Add({name, binaries_ + "/" + program, std::move(arguments), directory_.LogOf(name), ProgramKind::kOurs, {}});
}

Status Launcher::Start(Member* member) {
  CAPSTAN_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(member->call));
  member->process.emplace(std::move(process));
  member->restart_at.reset();
  member->steps_at_start = progress_.steps_done();
  member->joined = false;
  member->told_to_stop = false;
  member->failure.clear();
  member->silence = {};
  if (member->name() == kCoordinator) member->silence.last_beat = Clock::now();
  member->stop_asked.reset();
  WritePidOf(member);
  return {};
}

// Writes the member's pid file, or notes that it is missing: a full disk may have room later.
void Launcher::WritePidOf(Member* member) {
  const bool failed_before = std::exchange(member->pid_missing, false);
  const Status status = WritePid(directory_.path(), member->name(), member->process->pid());
  if (status.ok()) return;
  member->pid_missing = true;
  if (!failed_before) screen_->Line("warning: " + status.message() + "; it is tried again");
}

void Launcher::WriteMissingPids() {
  for (Member& member : members_) {
    if (member.pid_missing) WritePidOf(&member);
  }
}

bool Launcher::Restart(Member* member, Clock::time_point now) {
  const bool of_use = progress_.steps_done() > member->steps_at_start;
  member->restart_at =
      member->budget.Next(now, of_use ? RestartBudget::LastRun::kOfUse : RestartBudget::LastRun::kOfNoUse);
  if (!member->restart_at) return false;
  screen_->Line("warning: " + member->name() + " " + member->process->HowItEnded() + "; starting it again (" +
                std::to_string(member->budget.count()) + " of at most " + std::to_string(member->budget.max()) +
                " times within an hour)");
  return true;
}

void Launcher::StartDueMembers(Clock::time_point now) {
  for (Member& member : members_) {
    if (!member.restart_at || now < *member.restart_at) continue;
    if (ending_.stopping() || (ending_.begun() && member.is_own())) {
      member.restart_at.reset();
      continue;
    }
    if (Status status = Start(&member); !status.ok()) Fail(std::move(status));
  }
}

std::vector<std::string> Launcher::TraceArguments(const std::string& name) const {
  if (options_.trace.empty()) return {};
  return {"--trace", TraceFileOf(options_.trace, name)};
}

Status Launcher::StartCoordinator() {
  // The launcher chooses the coordinator's addresses, which stay the same over restarts.
  std::vector<std::string> arguments = {directory_.path() + "/job.toml",
                                        "--coordinator",
                                        "--run-dir",
                                        directory_.path(),
                                        "--set",
                                        "cluster.coordinator=" + options_.coordinator,
                                        "--metrics-listen",
                                        ChoosePort(config_.metrics.listen)};
  if (options_.begin != RunBegin::kNew) arguments.push_back("--resume");
  if (options_.begin == RunBegin::kRollBack) arguments.push_back("--accept-rollback");
  return AddOurs(kCoordinator, "capstan-server", std::move(arguments));
}

Status Launcher::StartMembers() {
  CAPSTAN_RETURN_IF_ERROR(StartServers());
  if (config_.model.built_in()) return StartWorkers();
  if (options_.program) return StartOwnPrograms();
  screen_->Line("the workers are your own: connect " + std::to_string(config_.cluster.workers) + " of them to " +
                endpoints_.coordinator);
  return {};
}

// Starts the servers. If the job file has a fixed port, each server gets ports of its own, counted up from that port.
Status Launcher::StartServers() {
  for (std::uint32_t i = 0; i < config_.cluster.servers; ++i) {
    const std::string listen = ShiftPort(config_.cluster.listen, i * config_.cluster.shards_per_server);
    std::vector<std::string> arguments = TraceArguments(ServerName(i));
    arguments.insert(arguments.begin(),
                     {directory_.path() + "/job.toml", "--index", std::to_string(i), "--run-dir", directory_.path(),
                      "--set", "cluster.coordinator=" + endpoints_.coordinator, "--set", "cluster.listen=" + listen,
                      "--metrics-listen", ShiftPort(config_.metrics.listen, 1 + i)});
    CAPSTAN_RETURN_IF_ERROR(AddOurs(ServerName(i), "capstan-server", std::move(arguments)));
  }
  return {};
}

Status Launcher::StartWorkers() {
  for (std::uint32_t i = 0; i < config_.cluster.workers; ++i) {
    std::vector<std::string> arguments = TraceArguments(WorkerName(i));
    arguments.insert(arguments.begin(),
                     {"--coordinator", endpoints_.coordinator, "--name", WorkerName(i), "--local-rank",
                      std::to_string(i), "--data-root", "/", "--join-seconds", std::to_string(config_.limits.join),
                      "--metrics-listen", ShiftPort(config_.metrics.listen, 1 + config_.cluster.servers + i)});
    CAPSTAN_RETURN_IF_ERROR(AddOurs(WorkerName(i), "capstan-worker", std::move(arguments)));
  }
  return {};
}

Status Launcher::StartOwnPrograms() {
  const OwnProgram& program = *options_.program;
  const std::uint32_t count = config_.cluster.workers;
  screen_->Line("starting " + std::to_string(count) + " of: " + ShellWords(program.words));
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = WorkerName(i);
    CAPSTAN_RETURN_IF_ERROR(Add({name,
                                 program.path,
                                 {program.words.begin() + 1, program.words.end()},
                                 directory_.LogOf(name),
                                 ProgramKind::kOwn,
                                 EnvironmentOf(program, endpoints_.coordinator, name, i, count)}));
  }
  return {};
}

// ---- watching ------------------------------------------------------------------------------------------------------

void Launcher::Wait() {
  std::vector<pollfd> fds = {{signals_->signal_fd(), POLLIN, 0}, {screen_->reader_fd(), 0, 0}};
  int timeout_ms = kRefreshMs;
  for (const Member& member : members_) {
    if (member.process->pipe_fd() >= 0) fds.push_back({member.process->pipe_fd(), POLLIN, 0});
    if (member.restart_at) timeout_ms = std::min(timeout_ms, kRestartPollMs);
  }
  poll(fds.data(), fds.size(), timeout_ms);
  screen_->Flush();
  if ((fds[1].revents & POLLERR) == 0) return;
  screen_->Close();
  signals_->Raise(SIGPIPE);
}

void Launcher::TakeEvents() {
  std::vector<std::pair<std::string, Event>> events;
  for (Member& member : members_) {
    if (member.is_own()) {
      ShowOutput(&member);
      continue;
    }
    for (Event& event : member.process->TakeEvents()) {
      NoteBeat(&member, event);
      events.emplace_back(member.name(), std::move(event));
    }
  }
  for (const auto& [name, event] : events) OnEvent(name, event);
}

void Launcher::ShowOutput(Member* member) {
  for (const std::string& line : member->process->TakeOutput()) {
    const bool warns = line.starts_with("capstan: ");  // the client library prints nothing else in this form
    screen_->Line(LabelOf(warns ? Severity::kWarning : Severity::kInfo) + member->name() + ": " + line);
  }
}

// Handles an event. It may start processes, which invalidates pointers into members_.
void Launcher::OnEvent(const std::string& name, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReady: OnReady(name, event); break;
    case Event::Kind::kNotice:
      if (name == kCoordinator) NoteJoined(event.text);
      if (name == kCoordinator) NoteRefused(event.text);
      if (!ending_.stopping()) screen_->Line(LabelOf(event.severity) + event.text);
      break;
    case Event::Kind::kFailed: OnFailed(name, event.text); break;
    case Event::Kind::kStopAsked: NoteStopAsked(name); break;
    case Event::Kind::kBeat:
    case Event::Kind::kNone: break;
  }
}

void Launcher::NoteStopAsked(const std::string& name) {
  for (Member& member : members_) {
    if (member.name() == name && !member.stop_asked) member.stop_asked = Clock::now();
  }
}

// Fails the job, unless the failure is a worker's: that counts once the worker has ended, and the job may continue.
void Launcher::OnFailed(const std::string& name, const std::string& text) {
  if (name == kCoordinator) return Fail(Refused(why_nobody_.empty() ? text : why_nobody_ + "; " + text));
  for (Member& member : members_) {
    if (member.name() != name) continue;
    member.failure = text;
    if (!member.is_worker()) Fail(Refused(name + ": " + text));
  }
}

// Notes who joined, from the coordinator's notice, such as: "worker-1" joined (2 of 2 workers).
void Launcher::NoteJoined(const std::string& notice) {
  for (Member& member : members_) {
    if (notice.starts_with("\"" + member.name() + "\" joined (")) member.joined = member.ever_joined = true;
  }
}

// Fails the job if a program left because the job refuses it, and would refuse it again. The Python package then sends
// a notice such as: "worker-1" left: Invalid ended it.
void Launcher::NoteRefused(const std::string& notice) {
  for (const Member& member : members_) {
    if (!member.is_own()) continue;
    for (const char* error : {"Invalid", "Unsupported"}) {
      if (notice != "\"" + member.name() + "\" left: " + error + " ended it") continue;
      return FailFor(member, "was refused, and would be again: mend it, then go on");
    }
  }
}

void Launcher::OnReady(const std::string& name, const Event& event) {
  endpoints_.metrics[name] = event.metrics;
  if (name == kCoordinator && !event.addresses.empty() && endpoints_.coordinator.empty()) {
    endpoints_.coordinator = event.addresses.front();
    if (Status status = StartMembers(); !status.ok()) Fail(std::move(status));
  }
  for (Member& member : members_) member.ready = member.ready || member.name() == name;
  const bool all = members_.size() > 1 && std::all_of(members_.begin(), members_.end(), [](const Member& member) {
                     return member.is_own() || member.ready;
                   });
  if (all && !std::exchange(all_were_ready_, true)) {
    screen_->Line("status and metrics: http://" + endpoints_.metrics[kCoordinator] +
                  "/ (coordinator; the others are in " + directory_.path() + "/endpoints.json)");
  }
}

void Launcher::ReapChildren(Clock::time_point now) {
  for (Member& member : members_) {
    if (!member.process->Reap()) continue;
    if (member.name() == kCoordinator && member.process->succeeded()) job_done_ = true;
    if (member.is_own()) ShowOutput(&member);
    if (!ending_.begun() && failure_.ok()) member.is_own() ? SeeOwnEnd(&member, now) : SeeEnd(&member, now);
  }
}

void Launcher::SeeEnd(Member* member, Clock::time_point now) {
  const ChildProcess& process = *member->process;
  if (process.succeeded()) return;
  for (const Event& event : member->process->TakeEvents()) {  // its last events; a late kReady starts no process
    if (event.kind != Event::Kind::kReady) OnEvent(member->name(), event);
  }
  if (!failure_.ok()) return;
  if (process.was_told_to_end() && member->call.path.ends_with("/capstan-worker")) {
    screen_->Line(member->name() + " left");
    return SeeWhoIsLeft();
  }
  const bool by_signal = process.was_killed() || process.was_told_to_end();
  if (by_signal && Restart(member, now)) return;
  if (member->is_worker() && !by_signal) return SetAside(member, process.HowItEnded());
  FailFor(*member, process.HowItEnded() + (by_signal ? AfterRestarts(*member) : ""));
}

// Handles the end of a user's program. One that is killed or fails is restarted, as long as it takes part in steps.
void Launcher::SeeOwnEnd(Member* member, Clock::time_point now) {
  const ChildProcess& process = *member->process;
  if (process.succeeded()) return SeeGoodOwnEnd(*member);
  // If no program ever joined under the name that it has here, programs use names of their own. Then only the job's
  // steps show whether one took part.
  const bool named = std::any_of(members_.begin(), members_.end(), [](const Member& one) { return one.ever_joined; });
  const bool took_part = (member->joined || !named) && progress_.steps_done() > member->steps_at_start;
  member->failures = process.was_killed() || took_part ? 0 : member->failures + 1;
  if (member->failures == kFailuresMax) {
    return SetAside(member, process.HowItEnded() + ", " + std::to_string(kFailuresMax) +
                                " times in a row, before it had computed a step");
  }
  if (Restart(member, now)) return;
  const std::string how = process.HowItEnded() + AfterRestarts(*member);
  process.was_killed() ? FailFor(*member, how) : SetAside(member, how);
}

std::string Launcher::AfterRestarts(const Member& member) {
  if (member.budget.max() == 0) return "";
  return " after " + std::to_string(member.budget.count()) + " restarts within an hour";
}

void Launcher::SetAside(Member* member, const std::string& how) {
  const std::string& text = member->failure;
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  // Without this worker the job cannot begin; and while the coordinator is silent, no worker can continue.
  if (progress_.steps_done() == steps_at_begin_ || members_.front().silence.said) {
    return text.empty() ? FailFor(*member, how) : Fail(Refused(member->name() + ": " + text));
  }
  member->set_aside = member->name() + (text.empty() ? " " + how : ": " + text);
  screen_->Line("warning: " + member->name() + " is set aside, and the job goes on without it: it " +
                WithLastLines(*member, how));
  SeeWhoIsLeft();
}

// Stops the job if all workers that the launcher started have ended and at least one was set aside. If all of them were
// told to leave, the job goes on: it may have workers that were started by hand, and the coordinator waits for those.
void Launcher::SeeWhoIsLeft() {
  std::string why;
  for (const Member& one : members_) {
    if (!one.is_worker()) continue;
    if (!one.ended()) return;
    if (!one.set_aside.empty()) why += (why.empty() ? "" : "; ") + one.set_aside;
  }
  if (why.empty()) return;
  nobody_left_ = true;
  why_nobody_ = "no worker is left (" + why + ")";
  screen_->Line("warning: no worker is left, and the job stops");
}

void Launcher::SeeGoodOwnEnd(const Member& member) {
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  if (progress_.steps_done() >= config_.steps()) return;
  screen_->Line("warning: " + member.name() + " exited with code 0 after " + std::to_string(progress_.steps_done()) +
                " of " + std::to_string(config_.steps()) +
                " steps, and is not started again: a worker's loop is to go " +
                "on as long as the job has work for it");
  SeeWhoIsLeft();
  if (nobody_left_) return;
  nobody_left_ = std::all_of(members_.begin(), members_.end(), [](const Member& one) {
    return !one.is_own() || (one.ended() && one.process->succeeded());
  });
  if (nobody_left_) screen_->Line("warning: no worker is left, and the job stops");
}

void Launcher::FailFor(const Member& member, const std::string& how) {
  Fail(Unreachable(member.name() + " " + WithLastLines(member, how)));
}

std::string Launcher::WithLastLines(const Member& member, const std::string& how) const {
  std::string message = how;
  const std::vector<std::string> lines = member.process->LastLines(kLinesShown);
  message += lines.empty() ? "; its log is empty" : "; the last lines of its log:";
  for (const std::string& line : lines) message += "\n  " + line;
  return message;
}

void Launcher::NoteBeat(Member* member, const Event& event) {
  Silence& silence = member->silence;
  if (member->name() != kCoordinator && event.kind != Event::Kind::kBeat) return;  // its start may take long
  silence.last_beat = Clock::now();
  if (member->name() != kCoordinator && std::exchange(silence.said, false)) {
    screen_->Line(member->name() + " runs again");
  }
}

void Launcher::Watch(Clock::time_point now) {
  // If the launcher itself was paused, it received no events, so no process counts as silent.
  const bool was_away = std::chrono::duration<double>(now - last_watch_).count() >= kSilenceSecondsMin;
  last_watch_ = now;
  for (Member& member : members_) {
    if (was_away && member.silence.last_beat) member.silence.last_beat = now;
  }
  WatchCoordinator(now);
  WatchMembers(now);
}

void Launcher::WatchMembers(Clock::time_point now) {
  const LimitsSection& limits = config_.limits;
  for (Member& member : members_) {
    Silence& silence = member.silence;
    if (ending_.begun() || member.name() == kCoordinator || member.process->ended() || !silence.last_beat) continue;
    const double seconds = std::chrono::duration<double>(now - *silence.last_beat).count();
    if (seconds < std::max(limits.report, kSilenceSecondsMin)) continue;
    const bool too_long = limits.stall > 0 && seconds >= std::max(limits.stall / 2, kSilenceSecondsMin);
    if (silence.said && now < silence.next_report && !too_long) continue;
    silence.said = true;
    silence.next_report = now + Seconds(limits.report);
    screen_->Line("warning: " + member.name() + " (process " + std::to_string(member.process->pid()) +
                  ") has not run for " + Duration(seconds) + (too_long ? "; killing it" : ""));
    if (!too_long) continue;
    member.process->Signal(SIGKILL);
    silence.last_beat.reset();
  }
}

void Launcher::WatchCoordinator(Clock::time_point now) {
  if (ending_.stopping() || members_.empty() || members_.front().process->ended()) return;
  Silence& silence_of = members_.front().silence;
  const double silence = std::chrono::duration<double>(now - *silence_of.last_beat).count();
  const LimitsSection& limits = config_.limits;
  if (silence < std::max(limits.report, kSilenceSecondsMin)) {
    if (std::exchange(silence_of.said, false)) screen_->Line("the coordinator answers again");
    return;
  }
  const std::string waits = " " + Duration(silence) + " for the coordinator (process " +
                            std::to_string(members_.front().process->pid()) + "): it does not answer";
  if (limits.stall > 0 && silence >= std::max(limits.stall, kSilenceSecondsMin)) Fail(Timeout("waited" + waits));
  if (silence_of.said && now < silence_of.next_report) return;
  silence_of.said = true;
  silence_of.next_report = now + Seconds(limits.report);
  screen_->Line("warning: waiting" + waits);
}

void Launcher::ShowProgress(Clock::time_point now) {
  const std::string line = progress_.Line();
  screen_->Live(line);
  if (screen_->is_terminal() || line.empty() || now < next_plain_line_ || ending_.stopping()) return;
  next_plain_line_ = now + kPlainEvery;
  screen_->Line(line);
}

// ---- ending --------------------------------------------------------------------------------------------------------

void Launcher::Fail(Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

// Carries out the orders of Ending. When the job is asked to stop, the coordinator takes a last snapshot and ends;
// then, or after any failure, the other processes are asked to end. After a good end they end by themselves.
void Launcher::End(Clock::time_point now) {
  const bool stop = signals_->stop_signal() != 0 || nobody_left_;
  const Ending::Situation situation{std::max(signals_->stop_count(), stop ? 1 : 0), !failure_.ok(),
                                    members_.empty() || members_.front().ended()};
  const bool had_waited = ending_.stopping();
  const Ending::Order order = ending_.Next(situation, now);
  HurryCoordinator();
  const std::string remaining = order == Ending::Order::kNone ? "" : Remaining();
  const auto signal_all = [&](int signal, std::optional<ProgramKind> kind = {}) {
    for (Member& member : members_) {
      if (kind && member.call.kind != *kind) continue;
      signal == SIGTERM ? TellToStop(&member) : member.process->Signal(signal);
    }
  };
  switch (order) {
    case Ending::Order::kNone: ShowRemaining(now); break;
    case Ending::Order::kLastSnapshot:
      screen_->Line(std::string("stopping") + (config_.snapshot.enabled() ? ": the job takes a last snapshot" : "") +
                    "; Ctrl-C once more leaves at once");
      members_.front().restart_at.reset();
      TellToStop(&members_.front());
      break;
    case Ending::Order::kWait:
      EndLatecomers();
      if (options_.program && !remaining.empty()) {
        screen_->Line("the job is done; waiting up to " + Duration(options_.end_seconds) + " for " + remaining +
                      " to end");
      }
      next_remaining_line_ = now + Seconds(config_.limits.report);
      break;
    case Ending::Order::kEndOurs:
    case Ending::Order::kKillOurs: {
      const std::string ours = Remaining(ProgramKind::kOurs);
      const bool kill = order == Ending::Order::kKillOurs;
      if (!ours.empty()) {
        screen_->Line(
            "warning: " + ours +
            (kill ? " did not end when told to; killing it" : " did not end by itself; telling it to (SIGTERM)"));
      }
      signal_all(kill ? SIGKILL : SIGTERM, ProgramKind::kOurs);
      break;
    }
    case Ending::Order::kEnd:
      if (had_waited && ending_.lost_patience() && !remaining.empty()) {
        screen_->Line("warning: " + remaining + " did not end by itself; telling it to (SIGTERM)");
      }
      signal_all(SIGTERM);
      break;
    case Ending::Order::kKill:
      if (!remaining.empty()) screen_->Line("warning: " + remaining + " did not end when told to; killing it");
      signal_all(SIGKILL);
      break;
  }
}

// Sends the coordinator a second stop signal, which ends it at once, if it is the last process left: it may wait for a
// last snapshot that no process is left to write.
void Launcher::HurryCoordinator() {
  const bool alone = ending_.stopping() && std::all_of(members_.begin(), members_.end(), [](const Member& member) {
                       return member.ended() == (member.name() != kCoordinator);
                     });
  if (alone && !std::exchange(hurried_, true)) members_.front().process->Signal(SIGTERM);
}

void Launcher::AnswerStops(Clock::time_point now) {
  for (Member& member : members_) {
    if (!member.stop_asked) continue;
    if (member.told_to_stop) {
      member.process->Signal(kToldToStop);
    } else if (!ending_.begun()) {
      if (now < *member.stop_asked + kOwnStopMax) continue;
      TellToStop(&member);
    }
    member.stop_asked.reset();
  }
}

void Launcher::TellToStop(Member* member) {
  member->told_to_stop = true;
  member->process->Signal(SIGTERM);
}

// Asks programs to end that were restarted just before the job ended, and so can no longer join.
void Launcher::EndLatecomers() {
  for (const Member& member : members_) {
    if (member.is_own() && member.ever_joined && !member.joined) member.process->Signal(SIGTERM);
  }
}

void Launcher::ShowRemaining(Clock::time_point now) {
  const std::optional<Clock::time_point> until = ending_.waits_until();
  const std::string remaining = until && now >= next_remaining_line_ ? Remaining() : "";
  if (remaining.empty()) return;
  next_remaining_line_ = now + Seconds(config_.limits.report);
  screen_->Line("the job is done; waiting " + Duration(std::chrono::duration<double>(*until - now).count()) +
                " more for " + remaining + " to end");
}

std::string Launcher::Remaining(std::optional<ProgramKind> kind) const {
  std::string names;
  for (const Member& member : members_) {
    if (member.process->ended() || (kind && member.call.kind != *kind)) continue;
    names += (names.empty() ? "" : ", ") + member.name() + " (process " + std::to_string(member.process->pid()) + ")";
  }
  return names;
}

bool Launcher::AllEnded() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.ended(); });
}

}  // namespace capstan::cli
