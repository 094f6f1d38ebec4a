// CreateHostAdder: a BucketAdder that gathers the parts over `group`, and adds them on the CPU of the first worker.
//
// Limits: the first worker has memory for one bucket of each part of each worker.
#pragma once

#include "worker/collective/group.h"
#include "worker/machine/bucket_adder.h"

namespace capstan::train {

// `group` outlives the adder.
std::unique_ptr<BucketAdder> CreateHostAdder(const AdderOptions& options, collective::Group* group);

}  // namespace capstan::train
