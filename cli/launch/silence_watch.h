// SilenceWatch: notices processes of ours that are silent. They send a beat every kBeatMs while they run.
//
// Kind:   owned by the launcher's thread.
// Limits: a silence is reported every limits.report. A coordinator that is silent for limits.stall fails the job. Any
//         other process that is silent for half of that is killed, so that it is restarted before the others give up.
//         No silence under three beats counts. If limits.stall is 0, silence is only reported.
// Why:    a process that is stuck reports no error and does not end.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "cli/launch/ending.h"
#include "cli/launch/member_list.h"
#include "cli/launch/screen.h"
#include "cli/run/events.h"
#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

class SilenceWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The arguments outlive this object.
  SilenceWatch(const LimitsSection& limits, Screen* screen) : limits_(limits), screen_(screen) {}

  // Notes that the member was started. Its start may take long, so its silence counts only after its first beat. The
  // coordinator's silence counts at once.
  void NoteStart(const Member& member);
  void NoteEvent(const Member& member, const Event& event);
  // Reports processes that are silent, and kills those that are silent too long. For the coordinator it returns the
  // job's failure instead.
  Status Look(MemberList* members, const Ending& ending, TimePoint now);
  // Whether a silence of the coordinator was reported and still lasts.
  bool coordinator_is_silent() const;

 private:
  // When a process last sent a beat, and when its silence is reported again.
  struct Silence {
    std::optional<TimePoint> last_beat;  // none: no beat yet
    TimePoint next_report{};
    bool said = false;
  };

  Status LookAtCoordinator(const Member& coordinator, TimePoint now);
  void LookAt(Member* member, TimePoint now);
  void NoteReport(Silence* silence, TimePoint now) const;

  const LimitsSection& limits_;
  Screen* const screen_;
  std::map<std::string, Silence> silences_;  // by the member's name
  TimePoint last_look_{};
};

}  // namespace capstan::cli
