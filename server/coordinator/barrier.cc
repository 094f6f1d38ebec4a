#include "server/coordinator/barrier.h"

#include <algorithm>

#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

bool Barrier::AnyWaiting(const Membership& members) const {
  return std::any_of(members.workers().begin(), members.workers().end(),
                     [this](const auto& entry) { return IsWaiting(entry.second); });
}

std::string Barrier::Missing(const Membership& members) const {
  std::string names;
  std::size_t missing = 0;
  for (const auto& [joined, worker] : members.workers()) {
    if (!IsWaiting(worker) && ++missing <= kNamedMax) AddName(&names, worker.name);
  }
  if (missing > kNamedMax) AddName(&names, Count(missing - kNamedMax, "more worker"));
  return names;
}

void Barrier::Pass(const Membership& members) {
  for (const auto& [joined, worker] : members.workers()) passed_ = std::max(passed_, worker.barrier);
}

}  // namespace capstan::server
