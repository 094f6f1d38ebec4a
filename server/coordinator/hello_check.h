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

// A new coordinator builds on the fields of a Hello: they must agree with each other, with the job and its catalog.
Status CheckHello(const Hello& hello, const JobFacts& facts);

// Describes the term, generation and snapshot that the shard has seen and our log lacks; empty if the log has them all.
// If not, another coordinator has taken over, or our directory is an old copy. Then this coordinator decides nothing; the
// shard is not at fault.
std::string BeyondLog(const Hello& hello, const JobFacts& facts);

// Whether the report has one sum for each segment of that shard, and the sums that the optimizer needs.
bool Fits(const PrepareReport& report, ShardIndex shard, const JobFacts& facts);

}  // namespace capstan::server
