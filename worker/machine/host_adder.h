// CreateHostAdder: a BucketAdder that gathers over a group of hosts, and adds on the first host.
//
// Limits: memory for one bucket of each part of each worker.
#pragma once

#include "worker/collective/group.h"
#include "worker/machine/bucket_adder.h"

namespace capstan::train {

// `group` outlives the adder.
std::unique_ptr<BucketAdder> CreateHostAdder(const AdderOptions& options, collective::Group* group);

}  // namespace capstan::train
