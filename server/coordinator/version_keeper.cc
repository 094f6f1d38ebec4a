#include "server/coordinator/version_keeper.h"

#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

bool VersionKeeper::Has(const Worker& worker, Generation generation) {
  return worker.generation == generation && worker.has_version;
}

bool VersionKeeper::AnyLoads(const Membership& members, Generation generation) {
  for (const auto& [joined, worker] : members.workers()) {
    if (worker.generation == generation && worker.loads) return true;
  }
  return false;
}

std::string VersionKeeper::Loading(const Membership& members, Generation generation) {
  std::string names;
  for (const auto& [joined, worker] : members.workers()) {
    if (worker.generation == generation && worker.loads) AddName(&names, "\"" + worker.name + "\"");
  }
  return names;
}

bool VersionKeeper::Choose(const Membership& members, Generation generation, bool wanted) {
  const std::optional<SessionId> before = keeper_;
  const Worker* const present = keeper_ ? members.Find(*keeper_) : nullptr;
  if (wanted && present != nullptr && Has(*present, generation)) return false;
  keeper_.reset();
  for (const auto& [joined, worker] : members.workers()) {
    if (wanted && !keeper_ && Has(worker, generation)) keeper_ = worker.session;
  }
  return keeper_ != before;
}

bool VersionKeeper::IsLost(const Membership& members, Generation generation, Instant now, Instant lease) {
  bool any_has = false;
  for (const auto& [joined, worker] : members.workers()) any_has = any_has || Has(worker, generation);
  if (any_has || !AnyLoads(members, generation)) {
    none_has_since_.reset();
    return false;
  }
  if (!none_has_since_) none_has_since_ = now;
  return now - *none_has_since_ >= lease;
}

}  // namespace capstan::server
