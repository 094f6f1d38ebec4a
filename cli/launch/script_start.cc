#include "cli/launch/script_start.h"

#include <poll.h>
#include <signal.h>

#include <optional>
#include <utility>

#include "cli/report/progress.h"

namespace capstan::cli {
namespace {

constexpr int kLookMs = 200;

}  // namespace

Result<ScriptFacts> ScriptStart::Await(std::vector<ProgramCall> calls) {
  const Clock::time_point begin = Clock::now();
  next_report_ = begin + std::chrono::seconds(kReportSeconds);
  for (ProgramCall& call : calls) {
    Member member(std::move(call), options_.max_restarts);
    CAPSTAN_RETURN_IF_ERROR(member.Start(0));
    scripts_.members.push_back(std::move(member));
  }
  for (;;) {
    Wait();
    scripts_.broker.Serve();
    CAPSTAN_RETURN_IF_ERROR(LookAtMembers());
    if (signals_->stop_signal() != 0) {
      for (Member& member : scripts_.members) member.TellToStop();
      return Refused("stopped before " + options_.script + " called prepare()");
    }
    if (const std::optional<std::string> facts = scripts_.broker.FactsOf(0)) return ParseScriptFacts(*facts);
    CAPSTAN_RETURN_IF_ERROR(LookAtTime(begin));
  }
}

void ScriptStart::Wait() {
  std::vector<pollfd> fds = {{signals_->signal_fd(), POLLIN, 0}, {screen_->reader_fd(), 0, 0}};
  scripts_.broker.AddTo(&fds);
  for (const Member& member : scripts_.members) {
    if (const int fd = member.process().pipe_fd(); fd >= 0) fds.push_back({fd, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), kLookMs);
  screen_->Flush();
  if ((fds[1].revents & POLLERR) == 0) return;
  screen_->Close();
  signals_->Raise(SIGPIPE);
}

Status ScriptStart::LookAtMembers() {
  for (Member& member : scripts_.members) {
    const bool ended = member.process().Reap();
    member.ShowOutput(screen_);
    if (ended) return EndedTooEarly(member);
  }
  return {};
}

Status ScriptStart::LookAtTime(Clock::time_point begin) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin).count();
  const Member& first = scripts_.members.front();
  const std::string what =
      first.name() + " (process " + std::to_string(first.process().pid()) + ") to call prepare() in " + options_.script;
  if (seconds >= options_.prepare_seconds) {
    return Timeout("waited " + Duration(seconds) + " for " + what + "; --prepare-seconds gives it more time");
  }
  if (now < next_report_) return {};
  next_report_ = now + std::chrono::seconds(kReportSeconds);
  screen_->Line("waiting " + Duration(seconds) + " for " + what + "; giving up after " +
                Duration(options_.prepare_seconds));
  return {};
}

Status ScriptStart::EndedTooEarly(const Member& member) const {
  if (!member.process().succeeded()) {
    return member.AsFailure(member.process().HowItEnded() + " before it called prepare() in " + options_.script);
  }
  return Unreachable(member.name() + " ended without a call of prepare(), so " + options_.script +
                     " has no job. It becomes a worker by these lines:\n"
                     "  import capstan.torch\n"
                     "  trainer = capstan.torch.connect()\n"
                     "  model, optimizer, loader = trainer.prepare(model, optimizer, loader)");
}

}  // namespace capstan::cli
