#include "cli/launch/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "cli/address.h"
#include "cli/trace_file.h"
#include "common/job/cluster_section.h"
#include "common/job/limits_section.h"
#include "common/job/metrics_section.h"
#include "common/job/model_section.h"
#include "common/job_config.h"

namespace capstan::cli {
namespace {

constexpr int kRefreshMs = 200;
constexpr int kRestartPollMs = 50;
constexpr std::chrono::seconds kPlainEvery{5};
constexpr double kSilenceSecondsMin = 3 * kBeatMs / 1000.0;  // less may be a busy machine
constexpr char kCoordinator[] = "coordinator";

std::string LabelOf(Severity severity) {
  switch (severity) {
    case Severity::kInfo: return "";
    case Severity::kWarning: return "warning: ";
    case Severity::kError: return "error: ";
  }
  return "";
}

std::string ServerName(std::uint32_t index) { return "server-" + std::to_string(index); }

}  // namespace

Launcher::Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
                   StopSignals* signals, Screen* screen)
    : config_(config),
      directory_(directory),
      binaries_(std::move(binaries)),
      signals_(signals),
      screen_(screen),
      progress_(directory.path() + "/metrics.jsonl", config.steps()),
      options_(options) {}

Status Launcher::Run() {
  if (Status status = StartCoordinator(); !status.ok()) Fail(std::move(status));
  while (!AllEnded()) {
    Wait();
    const Clock::time_point now = Clock::now();
    const std::vector<std::string> validations = progress_.Update();  // first: events are not older than steps
    TakeEvents();
    ReapChildren(now);
    StartDueMembers(now);
    WatchCoordinator(now);
    for (const std::string& line : validations) screen_->Line(line);
    ShowProgress(now);
    if (signals_->stop_signal() != 0 || !failure_.ok() || members_.front().ended()) StopAll(now);
  }
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  return failure_;
}

// ---- starting ------------------------------------------------------------------------------------------------------

Status Launcher::Add(const std::string& name, const std::string& program, std::vector<std::string> arguments) {
  Member member;
  member.name = name;
  member.program = program;
  member.arguments = std::move(arguments);
  CAPSTAN_RETURN_IF_ERROR(Start(&member));
  members_.push_back(std::move(member));
  return {};
}

Status Launcher::Start(Member* member) {
  CAPSTAN_ASSIGN_OR_RETURN(ChildProcess process,
                           ChildProcess::Start(member->name, binaries_ + "/" + member->program, member->arguments,
                                               directory_.LogOf(member->name)));
  member->process.emplace(std::move(process));
  member->restart_at.reset();
  member->steps_at_start = progress_.steps_done();
  return WritePid(directory_.path(), member->name, member->process->pid());
}

// Waits double while it dies without having been part of a step.
void Launcher::Restart(Member* member, Clock::time_point now) {
  if (progress_.steps_done() > member->steps_at_start) member->next_wait = kRestartFirst;
  ++restarts_;
  screen_->Line("warning: " + member->name + " " + member->process->HowItEnded() + "; starting it again (" +
                std::to_string(restarts_) + " of at most " + std::to_string(options_.max_restarts) + " times)");
  member->restart_at = now + member->next_wait;
  member->next_wait = std::min(member->next_wait * 2, kRestartLongest);
}

void Launcher::StartDueMembers(Clock::time_point now) {
  for (Member& member : members_) {
    if (!member.restart_at || now < *member.restart_at) continue;
    if (stopping_) {
      member.restart_at.reset();
      continue;
    }
    if (member.name == kCoordinator) coordinator_heard_ = now;
    if (Status status = Start(&member); !status.ok()) Fail(std::move(status));
  }
}

std::vector<std::string> Launcher::TraceArguments(const std::string& name) const {
  if (options_.trace.empty()) return {};
  return {"--trace", TraceFileOf(options_.trace, name)};
}

Status Launcher::StartCoordinator() {
  coordinator_heard_ = Clock::now();
  // Its addresses are chosen here, for all its lives.
  std::vector<std::string> arguments = {directory_.path() + "/job.toml",
                                        "--coordinator",
                                        "--run-dir",
                                        directory_.path(),
                                        "--set",
                                        "cluster.coordinator=" + ChoosePort(config_.cluster.coordinator),
                                        "--metrics-listen",
                                        ChoosePort(config_.metrics.listen)};
  if (options_.begin != RunBegin::kNew) arguments.push_back("--resume");
  if (options_.begin == RunBegin::kRollBack) arguments.push_back("--accept-rollback");
  return Add(kCoordinator, "capstan-server", std::move(arguments));
}

// Where a port is fixed, each process on this machine gets its own from there on.
Status Launcher::StartMembers() {
  const std::string& coordinator = endpoints_.coordinator;
  std::uint32_t started = 0;
  const auto metrics_listen = [&] { return ShiftPort(config_.metrics.listen, ++started); };
  for (std::uint32_t i = 0; i < config_.cluster.servers; ++i) {
    const std::string listen = ShiftPort(config_.cluster.listen, i * config_.cluster.shards_per_server);
    std::vector<std::string> arguments = TraceArguments(ServerName(i));
    arguments.insert(arguments.begin(), {directory_.path() + "/job.toml", "--index", std::to_string(i), "--run-dir",
                                         directory_.path(), "--set", "cluster.coordinator=" + coordinator, "--set",
                                         "cluster.listen=" + listen, "--metrics-listen", metrics_listen()});
    CAPSTAN_RETURN_IF_ERROR(Add(ServerName(i), "capstan-server", std::move(arguments)));
  }
  if (!config_.model.built_in()) {
    screen_->Line("the workers are your own: connect " + std::to_string(config_.cluster.workers) + " of them to " +
                  coordinator);
    return {};
  }
  for (std::uint32_t i = 0; i < config_.cluster.workers; ++i) {
    const std::string name = "worker-" + std::to_string(i);
    std::vector<std::string> arguments = TraceArguments(name);
    arguments.insert(arguments.begin(), {"--coordinator", coordinator, "--name", name, "--local-rank",
                                         std::to_string(i), "--data-root", "/", "--join-seconds",
                                         std::to_string(config_.limits.join), "--metrics-listen", metrics_listen()});
    CAPSTAN_RETURN_IF_ERROR(Add(name, "capstan-worker", std::move(arguments)));
  }
  return {};
}

// ---- watching ------------------------------------------------------------------------------------------------------

void Launcher::Wait() {
  std::vector<pollfd> fds = {{signals_->signal_fd(), POLLIN, 0}};
  int timeout_ms = kRefreshMs;
  for (const Member& member : members_) {
    if (member.process->events_fd() >= 0) fds.push_back({member.process->events_fd(), POLLIN, 0});
    if (member.restart_at) timeout_ms = std::min(timeout_ms, kRestartPollMs);
  }
  poll(fds.data(), fds.size(), timeout_ms);
}

void Launcher::TakeEvents() {
  std::vector<std::pair<std::string, Event>> events;
  for (Member& member : members_) {
    for (Event& event : member.process->TakeEvents()) {
      if (member.name == kCoordinator) coordinator_heard_ = Clock::now();
      events.emplace_back(member.name, std::move(event));
    }
  }
  for (const auto& [name, event] : events) OnEvent(name, event);
}

// May start processes: what points into members_ does not survive it.
void Launcher::OnEvent(const std::string& name, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReady: OnReady(name, event); break;
    case Event::Kind::kNotice:
      if (!stopping_) screen_->Line(LabelOf(event.severity) + event.text);
      break;
    case Event::Kind::kFailed: Fail(Refused(name == kCoordinator ? event.text : name + ": " + event.text)); break;
    case Event::Kind::kBeat:
    case Event::Kind::kNone: break;
  }
}

void Launcher::OnReady(const std::string& name, const Event& event) {
  ++ready_;
  endpoints_.metrics[name] = event.metrics;
  if (name == kCoordinator && !event.addresses.empty() && endpoints_.coordinator.empty()) {
    endpoints_.coordinator = event.addresses.front();
    if (Status status = StartMembers(); !status.ok()) Fail(std::move(status));
  }
  if (ready_ == members_.size() && ready_ > 1 && restarts_ == 0) {
    screen_->Line("status and metrics: http://" + endpoints_.metrics[kCoordinator] +
                  "/ (coordinator; the others are in " + directory_.path() + "/endpoints.json)");
  }
}

void Launcher::ReapChildren(Clock::time_point now) {
  for (Member& member : members_) {
    if (member.process->Reap() && !stopping_ && !last_snapshot_asked_ && failure_.ok()) SeeEnd(&member, now);
  }
}

void Launcher::SeeEnd(Member* member, Clock::time_point now) {
  const ChildProcess& process = *member->process;
  if (process.succeeded()) return;
  for (const Event& event : member->process->TakeEvents()) {  // its last words; what is ready no more starts nobody
    if (event.kind != Event::Kind::kReady) OnEvent(member->name, event);
  }
  if (!failure_.ok()) return;
  if (process.was_told_to_end() && member->program == "capstan-worker") {
    screen_->Line(member->name + " left");
    return;
  }
  if ((process.was_killed() || process.was_told_to_end()) && restarts_ < options_.max_restarts)
    return Restart(member, now);
  std::string message = member->name + " " + process.HowItEnded();
  if (process.was_killed() && options_.max_restarts > 0) message += " after " + std::to_string(restarts_) + " restarts";
  const std::vector<std::string> lines = process.LastLines(kLinesShown);
  message += lines.empty() ? "; its log is empty" : "; the last lines of its log:";
  for (const std::string& line : lines) message += "\n  " + line;
  Fail(Unreachable(std::move(message)));
}

void Launcher::WatchCoordinator(Clock::time_point now) {
  if (stopping_ || members_.empty() || members_.front().process->ended()) return;
  const double silence = std::chrono::duration<double>(now - coordinator_heard_).count();
  const LimitsSection& limits = config_.limits;
  if (silence < std::max(limits.report, kSilenceSecondsMin)) {
    if (std::exchange(silence_said_, false)) screen_->Line("the coordinator answers again");
    return;
  }
  const std::string waits = " " + Duration(silence) + " for the coordinator (process " +
                            std::to_string(members_.front().process->pid()) + "): it does not answer";
  if (limits.stall > 0 && silence >= std::max(limits.stall, kSilenceSecondsMin)) Fail(Timeout("waited" + waits));
  if (silence_said_ && now < next_report_) return;
  silence_said_ = true;
  next_report_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.report));
  screen_->Line("warning: waiting" + waits);
}

void Launcher::ShowProgress(Clock::time_point now) {
  const std::string line = progress_.Line();
  screen_->Live(line);
  if (screen_->is_terminal() || line.empty() || now < next_plain_line_ || stopping_) return;
  next_plain_line_ = now + kPlainEvery;
  screen_->Line(line);
}

// ---- ending --------------------------------------------------------------------------------------------------------

void Launcher::Fail(Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

// Told to stop, the coordinator takes a last snapshot, tells everybody that the job is over, and ends; then, or when
// anything else goes wrong, the others are told too.
void Launcher::StopAll(Clock::time_point now) {
  const bool coordinator_ended = members_.front().ended();
  if (!last_snapshot_asked_ && !stopping_ && failure_.ok() && !coordinator_ended) {
    last_snapshot_asked_ = true;
    kill_at_ = now + std::chrono::seconds(kLastSnapshotSeconds);
    members_.front().restart_at.reset();
    members_.front().process->Signal(SIGTERM);
    return;
  }
  const bool patient = last_snapshot_asked_ && !coordinator_ended && now < kill_at_ && signals_->stop_count() < 2;
  if (!stopping_ && !patient) {
    stopping_ = true;
    kill_at_ = now + std::chrono::seconds(kStopSeconds);
    // After a good end they are ending by themselves.
    if (failure_.ok() && !last_snapshot_asked_) return;
    for (const Member& member : members_) member.process->Signal(SIGTERM);
  } else if (stopping_ && (now >= kill_at_ || signals_->stop_count() > 1)) {
    for (const Member& member : members_) {
      if (!member.process->ended()) member.process->Signal(SIGKILL);
    }
  }
}

bool Launcher::AllEnded() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.ended(); });
}

}  // namespace capstan::cli
