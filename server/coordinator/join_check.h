// CheckJoin: whether a worker may join a job; CheckQuota: whether its key may have one more; EmptyShardsText: advice
// once the job's tensors are known.
//
// Kind:   pure functions of a Job.
// Fails:  kInvalid, kRefused, with the text for the worker's user.
#pragma once

#include <string>

#include "common/base/status.h"

namespace capstan {
struct Join;
struct Principal;
}  // namespace capstan

namespace capstan::server {

struct Job;
class Membership;

Status CheckJoin(const Join& join, const Job& job);

// A process that takes the place of another one with its key is none more.
Status CheckQuota(const Principal& sender, const Join& join, const Membership& members);

// Returns a log line that names the shards without parameters, which cannot speed anything up; empty if there are none.
std::string EmptyShardsText(const Job& job);

}  // namespace capstan::server
