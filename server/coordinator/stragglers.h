// IsSlow, HasDoneStep, BackUpSlowWorkers: workers that take too long for a step, and workers that can help.
//
// Kind:   pure functions, and changes of Workers.
// Why:    a slow worker may hang, and yet renew its lease. A second worker computes its slots as well; of two pushes of
//         one slot, the first counts.
#pragma once

#include <utility>
#include <vector>

#include "common/base/types.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

struct StepUnderWay {
  Generation generation;
  Step step;
};

// Whether the worker has computed the same step for at least `limit`: the step under way, or an earlier one that other
// workers have done for it.
bool IsSlow(const Worker& worker, const StepUnderWay& work, Instant now, Instant limit);
// Whether the worker has done all its slots of the step under way. A worker without slots has none to do.
bool HasDoneStep(const Worker& worker, const StepUnderWay& work);
// Gives the slots of each slow worker also to a worker that has done its own. Returns pairs of slow worker and helper.
std::vector<std::pair<const Worker*, Worker*>> BackUpSlowWorkers(const StepUnderWay& work, Instant now, Instant limit,
                                                                 Membership* members);
// Clears all workers' `backup`. Returns how many workers had any.
std::size_t ForgetBackups(Membership* members);

}  // namespace capstan::server
