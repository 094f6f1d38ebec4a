#include "cli/launch/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "cli/run/address.h"
#include "cli/run/job_keys.h"
#include "cli/run/shell_words.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

constexpr int kRefreshMs = 200;
constexpr int kRestartPollMs = 50;
constexpr std::chrono::seconds kPlainEvery{5};

Shutdown::Options ShutdownOptions(const JobConfig& config, const Launcher::Options& options) {
  Shutdown::Options result;
  if (options.program) result.program_seconds = options.end_seconds;
  result.report_seconds = config.limits.report;
  result.has_snapshots = config.snapshot.enabled();
  return result;
}

}  // namespace

Launcher::Launcher(const JobConfig& config, const RunDirectory& directory, std::string binaries, Options options,
                   StopSignals* signals, Screen* screen)
    : config_(config),
      directory_(directory),
      options_(std::move(options)),
      signals_(signals),
      screen_(screen),
      calls_(config, directory, std::move(binaries), options_.trace, options_.plaintext, options_.keys),
      progress_(directory.path() + "/metrics.jsonl", config.steps()),
      silence_(config.limits, screen),
      ends_(&members_, &progress_, &silence_, screen),
      shutdown_(ShutdownOptions(config, options_), &members_, screen) {}

Status Launcher::Run() {
  if (options_.begin != RunBegin::kNew) progress_.Update();  // the steps of the earlier run
  ends_.NoteBegin();
  Fail(Add(calls_.Coordinator(options_.coordinator, options_.begin)));
  while (!members_.AllEnded()) {
    Wait();
    if (scripts_) scripts_->broker.Serve();
    const Clock::time_point now = Clock::now();
    const std::vector<std::string> validations = progress_.Update();  // before the events, so steps appear first
    TakeEvents();
    ReapChildren(now);
    StartDueMembers(now);
    WriteMissingPids();
    Fail(silence_.Look(&members_, shutdown_.ending(), now));
    for (const std::string& line : validations) screen_->Line(line);
    ShowProgress(now);
    End(now);
    shutdown_.AnswerStops(now);
  }
  for (const std::string& line : progress_.Update()) screen_->Line(line);
  return failure_;
}

// ---- starting ------------------------------------------------------------------------------------------------------

Status Launcher::Add(ProgramCall call) {
  Member member(std::move(call), options_.max_restarts);
  CAPSTAN_RETURN_IF_ERROR(Start(&member));
  members_.Add(std::move(member));
  return {};
}

Status Launcher::AddAll(std::vector<ProgramCall> calls) {
  for (ProgramCall& call : calls) CAPSTAN_RETURN_IF_ERROR(Add(std::move(call)));
  return {};
}

Status Launcher::Start(Member* member) {
  CAPSTAN_RETURN_IF_ERROR(member->Start(progress_.steps_done()));
  silence_.NoteStart(*member);
  member->WritePidFile(directory_.path(), screen_);
  return {};
}

Status Launcher::StartMembers() {
  const std::string& coordinator = endpoints_.coordinator;
  CAPSTAN_RETURN_IF_ERROR(AddAll(calls_.Servers(coordinator)));
  if (config_.model.built_in()) return AddAll(calls_.Workers(coordinator));
  if (options_.concludes) return {};
  const std::string count = std::to_string(config_.cluster.workers);
  if (!options_.program) {
    const std::string key = options_.keys.empty() ? "" : " CAPSTAN_KEY_FILE=" + KeyFileIn(options_.keys, Role::kWorker);
    screen_->Line("the workers are your own: start " + count + " of them with CAPSTAN_COORDINATOR=" + coordinator +
                  key);
    return {};
  }
  if (scripts_) {
    TakeOverScripts();
    return {};
  }
  screen_->Line("starting " + count + " of: " + ShellWords(options_.program->words));
  return AddAll(calls_.OwnPrograms(*options_.program, coordinator));
}

void Launcher::TakeOverScripts() {
  std::vector<ProgramCall> calls = calls_.OwnPrograms(*options_.program, endpoints_.coordinator);
  CAPSTAN_CHECK(calls.size() == scripts_->members.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Member& member = scripts_->members[i];
    member.SetCall(std::move(calls[i]));  // a copy that is started again finds the job there
    member.WritePidFile(directory_.path(), screen_);
    members_.Add(std::move(member));
  }
  scripts_->members.clear();
  scripts_->broker.Announce(endpoints_.coordinator);
}

void Launcher::StartDueMembers(Clock::time_point now) {
  const Ending& ending = shutdown_.ending();
  for (Member& member : members_) {
    if (!member.restart_is_due(now)) continue;
    if (ending.stopping() || (ending.begun() && member.is_own())) {
      member.CancelRestart();
    } else {
      Fail(Start(&member));
    }
  }
}

void Launcher::WriteMissingPids() {
  for (Member& member : members_) {
    if (member.pid_file_missing()) member.WritePidFile(directory_.path(), screen_);
  }
}

// ---- watching ------------------------------------------------------------------------------------------------------

void Launcher::Wait() {
  std::vector<pollfd> fds = {{signals_->signal_fd(), POLLIN, 0}, {screen_->reader_fd(), 0, 0}};
  if (scripts_) scripts_->broker.AddTo(&fds);
  int timeout_ms = kRefreshMs;
  for (const Member& member : members_) {
    const int fd = member.process().pipe_fd();
    if (fd >= 0) fds.push_back({fd, POLLIN, 0});
    if (member.restarts()) timeout_ms = std::min(timeout_ms, kRestartPollMs);
  }
  poll(fds.data(), fds.size(), timeout_ms);
  screen_->Flush();
  if ((fds[1].revents & POLLERR) == 0) return;
  screen_->Close();
  signals_->Raise(SIGPIPE);
}

void Launcher::TakeEvents() {
  std::vector<std::pair<Member*, Event>> events;  // handled after the loop, because an event may add members
  for (Member& member : members_) {
    if (member.is_own()) {
      member.ShowOutput(screen_);
      continue;
    }
    for (Event& event : member.process().TakeEvents()) {
      silence_.NoteEvent(member, event);
      events.emplace_back(&member, std::move(event));
    }
  }
  for (const auto& [member, event] : events) OnEvent(member, event);
}

void Launcher::OnEvent(Member* member, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReady: OnReady(member, event); break;
    case Event::Kind::kNotice:
      if (member->is_coordinator()) NoteJoined(event.text);
      if (member->is_coordinator()) NoteRefused(event.text);
      if (!shutdown_.ending().stopping()) screen_->Line(LabelOf(event.severity) + event.text);
      break;
    case Event::Kind::kFailed: OnFailed(member, event.text); break;
    case Event::Kind::kStopAsked: member->NoteStopAsked(Clock::now()); break;
    case Event::Kind::kBeat:
    case Event::Kind::kNone: break;
  }
}

void Launcher::OnReady(Member* member, const Event& event) {
  endpoints_.metrics[member->name()] = event.metrics;
  if (member->is_coordinator() && !event.addresses.empty() && endpoints_.coordinator.empty()) {
    endpoints_.coordinator = event.addresses.front();
    Fail(StartMembers());
  }
  member->NoteReady();
  if (members_.AllWereReady() && !std::exchange(all_were_ready_, true)) {
    screen_->Line("status and metrics: " + UrlOf(endpoints_.metrics[ProgramCalls::kCoordinator]) +
                  "/ (coordinator; the others are in " + directory_.path() + "/endpoints.json)");
  }
}

// Fails the job, unless the failure is a worker's. MemberEnds decides about a worker's failure once the worker has
// ended.
void Launcher::OnFailed(Member* member, const std::string& text) {
  if (member->is_coordinator()) {
    const std::string& why = ends_.why_nobody();
    return Fail(Refused(why.empty() ? text : why + "; " + text));
  }
  member->NoteFailure(text);
  if (!member->is_worker()) Fail(Refused(member->name() + ": " + text));
}

// Notes which worker joined, from the coordinator's notice, such as: "worker-1" joined (2 of 2 workers).
void Launcher::NoteJoined(const std::string& notice) {
  for (Member& member : members_) {
    if (notice.starts_with("\"" + member.name() + "\" joined (")) member.NoteJoined();
  }
}

// Fails the job if a user's program left because the job refused it, and would refuse it again. The coordinator's
// notice then names the Python exception, as in: "worker-1" left: Invalid ended it.
void Launcher::NoteRefused(const std::string& notice) {
  for (const Member& member : members_) {
    if (!member.is_own()) continue;
    for (const char* error : {"Invalid", "Unsupported"}) {
      if (notice != "\"" + member.name() + "\" left: " + error + " ended it") continue;
      return Fail(member.AsFailure("was refused, and would be again: mend it, then go on"));
    }
  }
}

void Launcher::ReapChildren(Clock::time_point now) {
  for (Member& member : members_) {
    if (!member.process().Reap()) continue;
    if (member.is_coordinator() && member.process().succeeded()) job_done_ = true;
    if (member.is_own()) member.ShowOutput(screen_);
    if (!shutdown_.ending().begun() && failure_.ok()) SeeEnd(&member, now);
  }
}

void Launcher::SeeEnd(Member* member, Clock::time_point now) {
  if (!member->is_own() && !member->process().succeeded()) {
    for (const Event& event : member->process().TakeEvents()) {  // its last events; a late kReady starts no process
      if (event.kind != Event::Kind::kReady) OnEvent(member, event);
    }
    if (!failure_.ok()) return;
  }
  Fail(ends_.See(member, now));
}

void Launcher::ShowProgress(Clock::time_point now) {
  const std::string line = progress_.Line();
  screen_->Live(line);
  if (screen_->is_terminal() || line.empty() || now < next_plain_line_ || shutdown_.ending().stopping()) return;
  next_plain_line_ = now + kPlainEvery;
  screen_->Line(line);
}

// ---- ending --------------------------------------------------------------------------------------------------------

void Launcher::End(Clock::time_point now) {
  const bool stop = signals_->stop_signal() != 0 || ends_.nobody_left();
  shutdown_.Advance({std::max(signals_->stop_count(), stop ? 1 : 0), !failure_.ok(),
                     members_.empty() || members_.coordinator().ended()},
                    now);
}

void Launcher::Fail(Status failure) {
  if (failure_.ok()) failure_ = std::move(failure);
}

}  // namespace capstan::cli
