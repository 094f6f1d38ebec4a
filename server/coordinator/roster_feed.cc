#include "server/coordinator/roster_feed.h"

#include <utility>

#include "server/coordinator/coordinator.h"

namespace capstan::server {

void RosterFeed::Look(const Coordinator& core) {
  const Coordinator::State state = core.state();
  const bool over = state == Coordinator::State::kFinished || state == Coordinator::State::kStopped ||
                    state == Coordinator::State::kFailed;
  if (over || closed_ || !on_members_) return;
  Roster members = core.roster();
  if (members == members_) return;
  members_ = std::move(members);
  on_members_(members_);
}

void RosterFeed::SeeGeneration(const Coordinator& core) {
  if (core.state() != Coordinator::State::kRunning || running_generation_ == core.generation()) return;
  running_generation_ = core.generation();
  Look(core);
}

}  // namespace capstan::server
