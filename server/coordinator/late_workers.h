// LateWorkers: finds workers that hold slots and deliver nothing while others wait. They are left out: others get their
// slots, and they get none until they are tried again. Also IsSlow and HasDoneStep: what a worker says of its step.
//
// Kind:   a value; part of a Job. Volatile: a restarted coordinator tries every worker again.
// Limits: a worker is left out after others have waited for `patience`, or up to eight times as long where leaving
//         workers out has not helped. When steps are done again, it is tried again after a wait of `patience`, which
//         doubles up to kLongestTry each time, and is forgotten after kForgotten without a late worker. Workers that join
//         during this wait get no slots before its end.
// Why:    anybody can join, and a Heartbeat costs nothing. What a worker says of itself is believed only against it. Its
//         slots are believed: if a step has ended, they were there. So a worker that had its slots for a whole step has
//         delivered, and a worker that never has is the first suspect.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan::server {

class Membership;
struct Worker;

struct StepUnderWay {
  Generation generation;
  Step step;
};

// Whether the worker says that it has computed the same step for at least `limit`: the step under way, or an earlier one
// that other workers have done for it.
bool IsSlow(const Worker& worker, const StepUnderWay& work, Instant now, Instant limit);
// Whether the worker says that it has done all its slots of the step under way. A worker without slots has none to do.
bool HasDoneStep(const Worker& worker, const StepUnderWay& work);

class LateWorkers {
 public:
  static constexpr int kBreaksMax = 5;  // a member of a group that gives up so many in a row is late
  static constexpr Instant kLongestTry = std::chrono::minutes(10), kForgotten = std::chrono::hours(1);

  struct Situation {
    StepUnderWay work;
    Instant since{};     // when the step under way began
    Instant patience{};  // how long others wait for a worker
    // The slots that the step under way lacks, if the shards' reports tell, and other slots are further; else empty.
    std::optional<std::vector<SlotIndex>> missing;
  };
  struct Late {
    Worker* worker = nullptr;
    std::string why;  // such as: it has not done step 7
  };

  // Returns the workers to leave out now, in modes in which each worker pushes. Never all members.
  std::vector<Late> Find(const Situation& situation, Membership* members, Instant now) const;
  // The same in mode allreduce, while groups form: a worker is late if others have come to the group and this one to
  // none for `patience`, however many have formed and broken since, or if it keeps giving groups up.
  std::vector<Late> FindAway(Instant patience, Membership* members, Instant now) const;
  // Notes that the step under way waited for something else than workers until now.
  void NoteTrouble(Instant now) { trouble_ = now; }
  // Notes that late workers were found, and when they, and new ones, are tried again.
  void NoteLate(Instant patience, Instant now);
  // Notes that a step has ended: the present workers deliver.
  void NoteStep() { in_vain_ = 0; }
  // Whether workers that join now have to wait until others are tried again.
  bool HoldsBack(Instant now) const { return now < next_try_; }
  // Gives left-out workers another try, if it is due and steps are done. Returns their names; empty: none.
  std::string TakeBack(const StepUnderWay& work, Membership* members, Instant now) const;

 private:
  Instant Patience(const Situation& situation) const;

  Instant next_try_{}, wait_{}, last_late_{}, trouble_{};
  int in_vain_ = 0;  // how often workers were left out since the last step
};

}  // namespace capstan::server
