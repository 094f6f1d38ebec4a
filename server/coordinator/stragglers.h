// IsSlow, HasDoneStep, BackUpSlowWorkers: workers that take too long for a step, and workers that can help.
//
// Kind:   pure functions, and changes of Workers.
// Why:    a slow worker may be dead without having lost its lease. A second worker computes its slots as well; the
//         first push counts, and a second one is compared and ignored.
#pragma once

#include <utility>
#include <vector>

#include "common/base/types.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

// The work under way.
struct StepUnderWay {
  Generation generation;
  Step step;
};

// Whether the worker has made no progress for `limit`. It may hang in a step that others have done for it.
bool IsSlow(const Worker& worker, const StepUnderWay& work, Instant now, Instant limit);
// Whether the worker has done all its slots of the step under way. A worker without slots has none to do.
bool HasDoneStep(const Worker& worker, const StepUnderWay& work);
// Gives the slots of slow workers to workers that have done theirs. Returns the pairs of slow worker and helper.
std::vector<std::pair<const Worker*, Worker*>> BackUpSlowWorkers(const StepUnderWay& work, Instant now, Instant limit,
                                                                 Membership* members);
// Returns how many workers had backups.
std::size_t ForgetBackups(Membership* members);

}  // namespace capstan::server
