#include "server/coordinator/version_keeper.h"

#include <algorithm>
#include <utility>

#include "common/wire/messages/limits.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

bool VersionKeeper::Take(SessionId session, Report report) {
  if (reports_.size() >= 2 * kWorkersMax) reports_.clear();  // members report again within a second
  return std::exchange(reports_[session], report) != report;
}

// Returns the report of this generation; nothing is known from earlier ones.
VersionKeeper::Report VersionKeeper::Of(SessionId session, Generation generation) const {
  const auto found = reports_.find(session);
  return found != reports_.end() && found->second.generation == generation ? found->second : Report{};
}

bool VersionKeeper::AnyLoads(const Membership& members, Generation generation) const {
  return std::any_of(members.workers().begin(), members.workers().end(),
                     [&](const auto& entry) { return Of(entry.second.session, generation).loads; });
}

std::string VersionKeeper::Loading(const Membership& members, Generation generation) const {
  std::string names;
  for (const auto& [joined, worker] : members.workers()) {
    if (Of(worker.session, generation).loads) AddName(&names, "\"" + worker.name + "\"");
  }
  return names;
}

bool VersionKeeper::Choose(const Membership& members, Generation generation, bool wanted) {
  const std::optional<SessionId> before = keeper_;
  if (wanted && keeper_ && members.Find(*keeper_) != nullptr && Of(*keeper_, generation).has) return false;
  keeper_.reset();
  for (const auto& [joined, worker] : members.workers()) {
    if (wanted && !keeper_ && Of(worker.session, generation).has) keeper_ = worker.session;
  }
  return keeper_ != before;
}

bool VersionKeeper::IsLost(const Membership& members, Generation generation, Instant now, Instant lease) {
  bool any_has = false;
  for (const auto& [joined, worker] : members.workers()) any_has = any_has || Of(worker.session, generation).has;
  if (any_has || !AnyLoads(members, generation)) {
    none_has_since_.reset();
    return false;
  }
  if (!none_has_since_) none_has_since_ = now;
  return now - *none_has_since_ >= lease;
}

}  // namespace capstan::server
