// WaitingFor, WaitingLine, Overdue: the members that a job waits for, and when it gives up.
//
// Kind:   pure functions of a Job, for people.
// Fails:  Overdue: kTimeout after limits.join while the job gathers, and after limits.stall without a committed step
//         or, at the end, without a part of the last snapshot. Where weights are transferred, limits.stall is extended
//         by the time that this may take. The message names the members that the job waited for.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

struct Job;

// Names the members that the job waits for, such as: server 1 (never seen), "worker-2" (step 7, last heard 12 s ago).
// Empty if there are none.
std::string WaitingFor(const Job& job, Instant now);
// Returns a log line such as "waiting 5 s for server 1 (never seen); giving up after 60 s"; empty while the wait is
// shorter than limits.report, and when there is nothing to wait for.
std::string WaitingLine(const Job& job, Instant now);
// Returns why the job fails now; ok if it does not.
Status Overdue(const Job& job, Instant now);

}  // namespace capstan::server
