// MemberEnds: decides what follows when a process ends: a restart, going on without the process, or the job's end.
//
// Kind:   owned by the launcher's thread. The launcher carries out the restarts.
// Fails:  a process that is killed is restarted, as often as its RestartBudget allows; then the job fails. A worker
//         that fails by itself after the job's first step is set aside: it is not restarted, and the job stops when no
//         other worker is left. A user's program is restarted also when it fails, but is set aside if it fails
//         kFailuresMax times in a row without a step.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "cli/launch/member_list.h"
#include "cli/launch/screen.h"
#include "cli/launch/silence_watch.h"
#include "cli/report/progress.h"
#include "common/base/status.h"

namespace capstan::cli {

class MemberEnds {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr int kFailuresMax = 3;

  // The arguments outlive this object.
  MemberEnds(const MemberList* members, Progress* progress, const SilenceWatch* silence, Screen* screen)
      : members_(members), progress_(progress), silence_(silence), screen_(screen) {}

  // Notes at the launcher's start how many steps earlier launches of this run have done.
  void NoteBegin() { steps_at_begin_ = progress_->steps_done(); }
  // Handles the end of a member's process. The process's last events must have been handled before. Returns the job's
  // failure if the end causes one.
  Status See(Member* member, TimePoint now);
  // Whether no worker is left, so that the job is to stop.
  bool nobody_left() const { return nobody_left_; }
  // Whether no worker is left because every program of a job with kOpenEndedSteps has exited with 0: the job is done.
  bool loops_ended() const { return loops_ended_; }
  // Why no worker is left. Empty: a worker is left, or none was set aside.
  const std::string& why_nobody() const { return why_nobody_; }

 private:
  Status SeeOurs(Member* member, TimePoint now);
  Status SeeOwn(Member* member, TimePoint now);
  void SeeGoodOwn(const Member& member);
  // Plans a restart of the member. Returns false if it has died too often.
  bool Restart(Member* member, TimePoint now);
  // Handles a worker that failed by itself: the job continues without it, if this launch has done a step and other
  // workers are left.
  Status SetAside(const Member& member, const std::string& how);
  void SeeWhoIsLeft();
  void UpdateProgress();

  const MemberList* const members_;
  Progress* const progress_;
  const SilenceWatch* const silence_;
  Screen* const screen_;
  std::uint64_t steps_at_begin_ = 0;              // how many steps the run had before this launch
  std::map<std::string, int> failures_;           // of programs of the user's: failures in a row without a step
  std::map<std::string, std::string> set_aside_;  // why a worker is not restarted, by its name
  bool nobody_left_ = false, loops_ended_ = false;
  std::string why_nobody_;
};

}  // namespace capstan::cli
