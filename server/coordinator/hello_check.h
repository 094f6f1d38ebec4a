// CheckHello, BeyondLog, Fits: whether a coordinator can use what a shard reports of itself.
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

// Fails unless the fields of a Hello agree with each other, with the job and with its catalog, and are numbers that this
// job can have reached: a restarted coordinator takes the job's state from them.
Status CheckHello(const Hello& hello, const JobFacts& facts);

// Returns a text if the shard has seen a term, generation or snapshot beyond the coordinator's log, else "". A shard is
// beyond the log if another coordinator has taken over, or if the log is an old copy. The shard is not at fault.
std::string BeyondLog(const Hello& hello, const JobFacts& facts);

// Whether the report has one sum of gradient squares for each segment of the shard and, if the optimizer uses trust
// ratios, as many sums of weight squares and of direction squares.
bool Fits(const PrepareReport& report, ShardIndex shard, const JobFacts& facts);

}  // namespace capstan::server
