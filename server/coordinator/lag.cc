#include "server/coordinator/lag.h"

#include <algorithm>
#include <chrono>

#include "server/coordinator/job.h"

namespace capstan::server {
namespace {

constexpr Instant kOld = std::chrono::seconds(2);  // a worker that sends nothing for so long does not follow the job

}  // namespace

std::int64_t StepsAhead(Step a, Step b) {
  const std::uint64_t apart = std::min(a > b ? a.value - b.value : b.value - a.value, kAheadMax);
  return a > b ? static_cast<std::int64_t>(apart) : -static_cast<std::int64_t>(apart);
}

LagOfWorkers::LagOfWorkers(const Job& job, Instant now) : job_(job), now_(now) {
  for (const auto& [joined, worker] : job.members.workers()) {
    if (worker.computing) furthest_ = std::max(furthest_, AheadOf(worker));
  }
}

std::int64_t LagOfWorkers::AheadOf(const Worker& worker) const {
  if (worker.slots.empty() || worker.generation != job_.journal.generation()) return 0;
  if (now_ - worker.last_message < kOld) return worker.pace.ahead;
  return StepsAhead(worker.step, job_.steps->step());
}

std::uint64_t LagOfWorkers::Of(const Worker& worker) const {
  if (worker.slots.empty() || worker.generation != job_.journal.generation()) return 0;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, furthest_ - AheadOf(worker)));
}

}  // namespace capstan::server
