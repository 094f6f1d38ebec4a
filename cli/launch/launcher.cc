#include "cli/launch/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "cli/address.h"

namespace capstan::cli {
namespace {

constexpr int kRefreshMs = 200;
constexpr std::chrono::seconds kPlainEvery{5};
constexpr double kSilenceSecondsMin = 3 * kBeatMs / 1000.0;  // less may be a busy machine
constexpr char kCoordinator[] = "coordinator";

std::string ServerName(std::uint32_t index) { return "server-" + std::to_string(index); }

}  // namespace

Launcher::Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, StopSignals* signals,
                   Screen* screen)
    : config_(config),
      directory_(directory),
      binaries_(std::move(binaries)),
      signals_(signals),
      screen_(screen),
      progress_(directory.path() + "/metrics.jsonl", config.job.steps) {}

Status Launcher::Run() {
  if (Status status = StartCoordinator(); !status.ok()) Fail(std::move(status));
  while (!AllEnded()) {
    Wait();
    const Clock::time_point now = Clock::now();
    const std::vector<std::string> validations = progress_.Update();  // first: events are not older than steps
    TakeEvents();
    ReapChildren();
    WatchCoordinator(now);
    for (const std::string& line : validations) screen_->Line(line);
    ShowProgress(now);
    if (signals_->stop_signal() != 0) Fail(Refused("stopped"));
    const bool coordinator_ended = children_.front().ended();
    if (!failure_.ok() || coordinator_ended) StopAll(now);
  }
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  return failure_;
}

// ---- starting ------------------------------------------------------------------------------------------------------

Status Launcher::Start(const std::string& name, const std::string& program, std::vector<std::string> arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(name, binaries_ + "/" + program,
                                                                   std::move(arguments), directory_.LogOf(name)));
  children_.push_back(std::move(child));
  return WritePid(directory_.path(), name, children_.back().pid());
}

Status Launcher::StartCoordinator() {
  coordinator_heard_ = Clock::now();
  return Start(kCoordinator, "capstan-server",
               {directory_.path() + "/job.toml", "--coordinator", "--run-dir", directory_.path()});
}

// Where a port is fixed, each process on this machine gets its own from there on.
Status Launcher::StartMembers() {
  const std::string& coordinator = endpoints_.coordinator;
  std::uint32_t started = 0;
  const auto metrics_listen = [&] { return ShiftPort(config_.metrics.listen, ++started); };
  for (std::uint32_t i = 0; i < config_.cluster.servers; ++i) {
    const std::string listen = ShiftPort(config_.cluster.listen, i * config_.cluster.shards_per_server);
    CAPSTAN_RETURN_IF_ERROR(Start(
        ServerName(i), "capstan-server",
        {directory_.path() + "/job.toml", "--index", std::to_string(i), "--set", "cluster.coordinator=" + coordinator,
         "--set", "cluster.listen=" + listen, "--metrics-listen", metrics_listen()}));
  }
  for (std::uint32_t i = 0; i < config_.cluster.workers; ++i) {
    const std::string name = "worker-" + std::to_string(i);
    CAPSTAN_RETURN_IF_ERROR(Start(name, "capstan-worker",
                                  {"--coordinator", coordinator, "--name", name, "--data-root", "/", "--join-seconds",
                                   std::to_string(config_.limits.join), "--metrics-listen", metrics_listen()}));
  }
  return {};
}

// ---- watching ------------------------------------------------------------------------------------------------------

void Launcher::Wait() {
  std::vector<pollfd> fds = {{signals_->signal_fd(), POLLIN, 0}};
  for (const ChildProcess& child : children_) {
    if (child.events_fd() >= 0) fds.push_back({child.events_fd(), POLLIN, 0});
  }
  poll(fds.data(), fds.size(), kRefreshMs);
}

void Launcher::TakeEvents() {
  std::vector<std::pair<std::string, Event>> events;
  for (ChildProcess& child : children_) {
    for (Event& event : child.TakeEvents()) {
      if (child.name() == kCoordinator) coordinator_heard_ = Clock::now();
      events.emplace_back(child.name(), std::move(event));
    }
  }
  for (const auto& [name, event] : events) OnEvent(name, event);
}

// May start processes: what points into children_ does not survive it.
void Launcher::OnEvent(const std::string& name, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReady: OnReady(name, event); break;
    case Event::Kind::kNotice:
      if (!stopping_) screen_->Line(event.severity == Severity::kInfo ? event.text : "warning: " + event.text);
      break;
    case Event::Kind::kFailed: Fail(Refused(name == kCoordinator ? event.text : name + ": " + event.text)); break;
    case Event::Kind::kBeat:
    case Event::Kind::kNone: break;
  }
}

void Launcher::OnReady(const std::string& name, const Event& event) {
  ++ready_;
  endpoints_.metrics[name] = event.metrics;
  if (name == kCoordinator && !event.addresses.empty()) {
    endpoints_.coordinator = event.addresses.front();
    if (Status status = StartMembers(); !status.ok()) Fail(std::move(status));
  } else {
    server_addresses_[name] = event.addresses;
  }
  endpoints_.shards.clear();
  for (std::uint32_t i = 0; i < config_.cluster.servers; ++i) {
    for (const std::string& address : server_addresses_[ServerName(i)]) endpoints_.shards.push_back(address);
  }
  if (Status status = WriteEndpoints(directory_.path(), endpoints_); !status.ok()) Fail(std::move(status));
  if (ready_ == children_.size() && ready_ > 1) {
    screen_->Line("status and metrics: http://" + endpoints_.metrics[kCoordinator] +
                  "/ (coordinator; the others are in " + directory_.path() + "/endpoints.json)");
  }
}

void Launcher::ReapChildren() {
  for (ChildProcess& child : children_) {
    if (!child.Reap() || child.succeeded() || !failure_.ok() || stopping_) continue;
    for (const Event& event : child.TakeEvents()) {  // its last words; what is ready no more starts nobody
      if (event.kind != Event::Kind::kReady) OnEvent(child.name(), event);
    }
    if (!failure_.ok()) continue;
    std::string message = child.name() + " " + child.HowItEnded();
    const std::vector<std::string> lines = child.LastLines(kLinesShown);
    message += lines.empty() ? "; its log is empty" : "; the last lines of its log:";
    for (const std::string& line : lines) message += "\n  " + line;
    Fail(Unreachable(std::move(message)));
  }
}

void Launcher::WatchCoordinator(Clock::time_point now) {
  if (stopping_ || children_.empty() || children_.front().ended()) return;
  const double silence = std::chrono::duration<double>(now - coordinator_heard_).count();
  const LimitsSection& limits = config_.limits;
  if (silence < std::max(limits.report, kSilenceSecondsMin)) {
    if (std::exchange(silence_said_, false)) screen_->Line("the coordinator answers again");
    return;
  }
  const std::string waits = " " + Duration(silence) + " for the coordinator (process " +
                            std::to_string(children_.front().pid()) + "): it does not answer";
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

void Launcher::StopAll(Clock::time_point now) {
  if (!stopping_) {
    stopping_ = true;
    kill_at_ = now + std::chrono::seconds(kStopSeconds);
    // After a good end they are ending by themselves.
    if (failure_.ok()) return;
    for (const ChildProcess& child : children_) child.Signal(SIGTERM);
  } else if (now >= kill_at_ || signals_->stop_count() > 1) {
    for (const ChildProcess& child : children_) {
      if (!child.ended()) child.Signal(SIGKILL);
    }
  }
}

bool Launcher::AllEnded() const {
  return std::all_of(children_.begin(), children_.end(), [](const ChildProcess& child) { return child.ended(); });
}

}  // namespace capstan::cli
