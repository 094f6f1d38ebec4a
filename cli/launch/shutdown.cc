#include "cli/launch/shutdown.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "cli/report/progress.h"
#include "cli/run/process.h"

namespace capstan::cli {

Shutdown::Shutdown(Options options, MemberList* members, Screen* screen)
    : options_(options),
      members_(members),
      screen_(screen),
      ending_(options.program_seconds ? std::chrono::duration<double>(*options.program_seconds)
                                      : Ending::kStopSeconds) {}

void Shutdown::Advance(const Ending::Situation& situation, TimePoint now) {
  const bool had_waited = ending_.stopping();
  const Ending::Order order = ending_.Next(situation, now);
  HurryCoordinator();
  switch (order) {
    case Ending::Order::kNone: ShowRemaining(now); break;
    case Ending::Order::kLastSnapshot: BeginLastSnapshot(); break;
    case Ending::Order::kWait: BeginWait(now); break;
    case Ending::Order::kEndOurs:
    case Ending::Order::kKillOurs: EndOurs(order); break;
    case Ending::Order::kEnd:
      if (const std::string remaining = members_->Remaining();
          had_waited && ending_.lost_patience() && !remaining.empty()) {
        screen_->Line("warning: " + remaining + " did not end by itself; telling it to (SIGTERM)");
      }
      SignalAll(SIGTERM);
      break;
    case Ending::Order::kKill:
      if (const std::string remaining = members_->Remaining(); !remaining.empty()) {
        screen_->Line("warning: " + remaining + " did not end when told to; killing it");
      }
      SignalAll(SIGKILL);
      break;
  }
}

void Shutdown::BeginLastSnapshot() {
  screen_->Line(std::string("stopping") + (options_.has_snapshots ? ": the job takes a last snapshot" : "") +
                "; Ctrl-C once more leaves at once");
  members_->coordinator().CancelRestart();
  members_->coordinator().TellToStop();
}

void Shutdown::BeginWait(TimePoint now) {
  const std::string remaining = members_->Remaining();
  // A user's program that was restarted just before the job ended cannot join any more, so it is asked to end.
  for (const Member& member : *members_) {
    if (member.is_own() && member.ever_joined() && !member.joined()) member.process().Signal(SIGTERM);
  }
  if (options_.program_seconds && !remaining.empty()) {
    screen_->Line("the job is done; waiting up to " + Duration(*options_.program_seconds) + " for " + remaining +
                  " to end");
  }
  next_remaining_line_ = NextReport(now);
}

void Shutdown::EndOurs(Ending::Order order) {
  const bool kill = order == Ending::Order::kKillOurs;
  if (const std::string ours = members_->Remaining(ProgramKind::kOurs); !ours.empty()) {
    screen_->Line("warning: " + ours +
                  (kill ? " did not end when told to; killing it" : " did not end by itself; telling it to (SIGTERM)"));
  }
  SignalAll(kill ? SIGKILL : SIGTERM, ProgramKind::kOurs);
}

void Shutdown::SignalAll(int signal, std::optional<ProgramKind> kind) {
  for (Member& member : *members_) {
    if (kind && member.kind() != *kind) continue;
    signal == SIGTERM ? member.TellToStop() : member.process().Signal(signal);
  }
}

// If the coordinator is the last process left, sends it a second stop signal, which ends it at once. Otherwise it might
// wait for a last snapshot that no process is left to write.
void Shutdown::HurryCoordinator() {
  const bool alone = ending_.stopping() && std::all_of(members_->begin(), members_->end(), [](const Member& member) {
                       return member.ended() != member.is_coordinator();
                     });
  if (alone && !std::exchange(hurried_, true)) members_->coordinator().process().Signal(SIGTERM);
}

void Shutdown::AnswerStops(TimePoint now) {
  for (Member& member : *members_) {
    if (!member.stop_asked()) continue;
    if (member.told_to_stop()) {
      member.process().Signal(kToldToStop);
    } else if (!ending_.begun()) {
      if (now < *member.stop_asked() + kOwnStopMax) continue;
      member.TellToStop();
    }
    member.NoteStopAnswered();
  }
}

void Shutdown::ShowRemaining(TimePoint now) {
  const std::optional<TimePoint> until = ending_.waits_until();
  const std::string remaining = until && now >= next_remaining_line_ ? members_->Remaining() : "";
  if (remaining.empty()) return;
  next_remaining_line_ = NextReport(now);
  screen_->Line("the job is done; waiting " + Duration(std::chrono::duration<double>(*until - now).count()) +
                " more for " + remaining + " to end");
}

Shutdown::TimePoint Shutdown::NextReport(TimePoint now) const {
  return now + std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(options_.report_seconds));
}

}  // namespace capstan::cli
