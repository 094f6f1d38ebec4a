// RosterFeed: passes a job's members on to a callback whenever they have changed.
//
// Kind:   part of CoordinatorLoop, owned by its thread.
// Why:    once the job is over it passes on no more, so the members that were passed last stay on record.
#pragma once

#include <functional>

#include "common/base/types.h"
#include "server/coordinator/roster.h"

namespace capstan::server {

class Coordinator;

class RosterFeed {
 public:
  // `on_members` may be empty.
  explicit RosterFeed(std::function<void(const Roster&)> on_members) : on_members_(std::move(on_members)) {}

  // Passes the members on if they have changed.
  void Look(const Coordinator& core);
  // Does so at once when a generation has begun to run: users may look once the log says that the job runs.
  void SeeGeneration(const Coordinator& core);
  void Close() { closed_ = true; }

 private:
  const std::function<void(const Roster&)> on_members_;
  Roster members_;                 // members last passed on
  Generation running_generation_;  // generation whose members were passed on
  bool closed_ = false;
};

}  // namespace capstan::server
