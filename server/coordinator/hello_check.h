// CheckHello, BeyondLog: whether a coordinator can build on what a shard says of itself.
//
// Kind:   pure functions.
// Fails:  kInvalid, kRefused, with the text for the shard's user.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {
struct Hello;
struct PrepareReport;
}  // namespace capstan

namespace capstan::server {

struct JobFacts;

// Fails unless the fields of a Hello agree with each other, with the job and with its catalog: a new coordinator builds
// on them.
Status CheckHello(const Hello& hello, const JobFacts& facts);

// Describes the term, generation and snapshot that the shard has seen and our log lacks; empty if the log has them all.
// If the log lacks one, another coordinator has taken over, or our directory is an old copy. Then this coordinator
// decides nothing; the shard is not at fault.
std::string BeyondLog(const Hello& hello, const JobFacts& facts);

// Whether the report has one sum for each segment of the shard, and the sums that the optimizer needs.
bool Fits(const PrepareReport& report, ShardIndex shard, const JobFacts& facts);

}  // namespace capstan::server
