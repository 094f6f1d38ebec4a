// RosterFeed: passes a job's members on to a callback whenever they have changed.
//
// Kind:   part of CoordinatorLoop, owned by its thread.
// Why:    once the job is over nothing more is passed on, so the members that the job ended with stay on record.
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

  // Passes the members on if they have changed and the job is not over.
  void Look(const Coordinator& core);
  // Calls Look when a new generation runs: users may look at the members as soon as a log line says that the job runs.
  void SeeGeneration(const Coordinator& core);
  void Close() { closed_ = true; }

 private:
  const std::function<void(const Roster&)> on_members_;
  Roster members_;                 // members last passed on
  Generation running_generation_;  // generation whose members were passed on
  bool closed_ = false;
};

}  // namespace capstan::server
