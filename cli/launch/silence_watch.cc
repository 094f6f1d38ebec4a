#include "cli/launch/silence_watch.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "cli/launch/program_calls.h"
#include "cli/report/progress.h"
#include "common/config/job/limits_section.h"

namespace capstan::cli {
namespace {

constexpr double kSilenceSecondsMin = 3 * kBeatMs / 1000.0;  // a shorter silence may only mean a busy machine

double SecondsBetween(SilenceWatch::TimePoint from, SilenceWatch::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void SilenceWatch::NoteStart(const Member& member) {
  Silence silence;
  if (member.is_coordinator()) silence.last_beat = std::chrono::steady_clock::now();
  silences_[member.name()] = silence;
}

void SilenceWatch::NoteEvent(const Member& member, const Event& event) {
  if (!member.is_coordinator() && event.kind != Event::Kind::kBeat) return;  // its start may take long
  Silence& silence = silences_[member.name()];
  silence.last_beat = std::chrono::steady_clock::now();
  if (!member.is_coordinator() && std::exchange(silence.said, false)) screen_->Line(member.name() + " runs again");
}

Status SilenceWatch::Look(MemberList* members, const Ending& ending, TimePoint now) {
  // If the launcher itself was paused, it received no events, so no process counts as silent.
  const bool was_away = SecondsBetween(last_look_, now) >= kSilenceSecondsMin;
  last_look_ = now;
  for (auto& [name, silence] : silences_) {
    if (was_away && silence.last_beat) silence.last_beat = now;
  }
  Status failure;
  if (!ending.stopping() && !members->empty()) failure = LookAtCoordinator(members->coordinator(), now);
  if (ending.begun()) return failure;
  for (Member& member : *members) {
    if (!member.is_coordinator()) LookAt(&member, now);
  }
  return failure;
}

bool SilenceWatch::coordinator_is_silent() const {
  const auto silence = silences_.find(ProgramCalls::kCoordinator);
  return silence != silences_.end() && silence->second.said;
}

Status SilenceWatch::LookAtCoordinator(const Member& coordinator, TimePoint now) {
  if (coordinator.process().ended()) return {};
  Silence& silence = silences_[coordinator.name()];
  const double seconds = SecondsBetween(*silence.last_beat, now);
  if (seconds < std::max(limits_.report, kSilenceSecondsMin)) {
    if (std::exchange(silence.said, false)) screen_->Line("the coordinator answers again");
    return {};
  }
  const std::string waits = " " + Duration(seconds) + " for the coordinator (process " +
                            std::to_string(coordinator.process().pid()) + "): it does not answer";
  if (!silence.said || now >= silence.next_report) {
    NoteReport(&silence, now);
    screen_->Line("warning: waiting" + waits);
  }
  const bool too_long = limits_.stall > 0 && seconds >= std::max(limits_.stall, kSilenceSecondsMin);
  return too_long ? Timeout("waited" + waits) : Status();
}

void SilenceWatch::LookAt(Member* member, TimePoint now) {
  Silence& silence = silences_[member->name()];
  if (member->process().ended() || !silence.last_beat) return;
  const double seconds = SecondsBetween(*silence.last_beat, now);
  if (seconds < std::max(limits_.report, kSilenceSecondsMin)) return;
  const bool too_long = limits_.stall > 0 && seconds >= std::max(limits_.stall / 2, kSilenceSecondsMin);
  if (silence.said && now < silence.next_report && !too_long) return;
  NoteReport(&silence, now);
  screen_->Line("warning: " + member->name() + " (process " + std::to_string(member->process().pid()) +
                ") has not run for " + Duration(seconds) + (too_long ? "; killing it" : ""));
  if (!too_long) return;
  member->process().Signal(SIGKILL);
  silence.last_beat.reset();
}

void SilenceWatch::NoteReport(Silence* silence, TimePoint now) const {
  silence->said = true;
  silence->next_report =
      now + std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(limits_.report));
}

}  // namespace capstan::cli
