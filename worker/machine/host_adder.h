// CreateHostAdder: a BucketAdder that gathers over a group of the hosts, and adds there.
//
// Limits: a bucket of each worker, for each of its parts.
#pragma once

#include "worker/collective/group.h"
#include "worker/machine/bucket_adder.h"

namespace capstan::train {

// `group` outlives it.
std::unique_ptr<BucketAdder> CreateHostAdder(const AdderOptions& options, collective::Group* group);

}  // namespace capstan::train
