#include "server/coordinator/lag.h"

#include <algorithm>
#include <chrono>

#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "server/coordinator/job.h"

namespace capstan::server {
namespace {

constexpr Instant kOld = std::chrono::seconds(2);  // a worker that sends nothing for so long does not follow the job

// Returns by how many steps a worker can be ahead of the job's step. One that claims more does not make others late.
std::int64_t MostAhead(const JobConfig& config) {
  switch (config.mode()) {
    case Mode::kAsync: break;
    case Mode::kBounded: return static_cast<std::int64_t>(std::min<std::uint64_t>(config.job.staleness, kAheadMax));
    default: return 0;
  }
  return static_cast<std::int64_t>(kAheadMax);
}

}  // namespace

std::int64_t StepsAhead(Step a, Step b) {
  const std::uint64_t apart = std::min(a > b ? a.value - b.value : b.value - a.value, kAheadMax);
  return a > b ? static_cast<std::int64_t>(apart) : -static_cast<std::int64_t>(apart);
}

LagOfWorkers::LagOfWorkers(const Job& job, Instant now) : job_(job), now_(now) {
  const std::int64_t most = MostAhead(job.options.config);
  for (const auto& [joined, worker] : job.members.workers()) {
    if (worker.computing) furthest_ = std::max(furthest_, std::min(AheadOf(worker), most));
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
