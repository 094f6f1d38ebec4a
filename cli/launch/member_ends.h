// MemberEnds: decides what follows when a process ends: a restart, going on without the process, or the job's end.
//
// Kind:   owned by the launcher's thread. The launcher carries out the restarts.
// Fails:  a process that is killed is restarted, as often as its RestartBudget allows; then the job fails. A worker that
//         fails by itself is restarted as well, unless it fails kFailuresMax times in a row without taking part in a
//         step: then it is set aside, and the job goes on without it. The job fails instead if it may not begin without
//         it, and at once if one of capstan's own workers fails before any worker has joined, because all have that
//         error. When no worker is left, the job stops.
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

  // `workers_needed`: how many workers the job needs to begin. The other arguments outlive this object.
  MemberEnds(const MemberList* members, Progress* progress, const SilenceWatch* silence, Screen* screen,
             std::size_t workers_needed)
      : members_(members), progress_(progress), silence_(silence), screen_(screen), workers_needed_(workers_needed) {}

  // Notes at the launcher's start how many steps earlier launches of this run have done.
  void NoteBegin() { steps_at_begin_ = progress_->steps_done(); }
  // Handles the end of a member's process. The process's last events must have been handled before. Returns the job's
  // failure if the end causes one.
  Status See(Member* member, TimePoint now);
  // Returns the job's failure if a user's program has failed because the job refused it.
  static Status SeeRefused(const Member& member, TimePoint now);
  // Whether no worker is left, so that the job is to stop.
  bool nobody_left() const { return nobody_left_; }
  // Why no worker is left. Empty: a worker is left, or none was set aside.
  const std::string& why_nobody() const { return why_nobody_; }

 private:
  Status SeeOurs(Member* member, TimePoint now);
  Status SeeOwn(Member* member, TimePoint now);
  Status SeeFailedWorker(Member* member, TimePoint now);
  bool TookPart(const Member& member) const;
  bool MayBeginWithout(const Member& member) const;
  void SeeGoodOwn(const Member& member);
  // Plans a restart of the member. Returns false if it has died too often.
  bool Restart(Member* member, TimePoint now);
  // Goes on without a worker that fails by itself, if the job can.
  Status SetAside(const Member& member, const std::string& how);
  void SeeWhoIsLeft();
  void UpdateProgress();

  const MemberList* const members_;
  Progress* const progress_;
  const SilenceWatch* const silence_;
  Screen* const screen_;
  const std::size_t workers_needed_;
  std::uint64_t steps_at_begin_ = 0;              // how many steps the run had before this launch
  std::map<std::string, int> failures_;           // of workers: failures in a row without a step
  std::map<std::string, std::string> set_aside_;  // why a worker is not restarted, by its name
  bool nobody_left_ = false;
  std::string why_nobody_;
};

}  // namespace capstan::cli
