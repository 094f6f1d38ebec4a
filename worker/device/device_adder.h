// CreateDeviceAdder: a BucketAdder that gathers over NCCL to the device of the first worker, and adds there.
//
// Kind:   owned by the thread that makes it, on streams of its own.
// Limits: two buckets on their way: of each, pinned memory for this worker's parts and, at the first worker, for the
//         sums; on the device as much, and a bucket of each worker besides.
// Fails:  as DeviceGroup, and as CUDA, by which the device may be lost.
// Why:    what comes from the host is what would be pushed, to the bit: rounded, added up along the tree of this worker's
//         slots. So nothing depends on how the model's gradients lie on the device, and the thread that computes has
//         nothing to do with it. Devices wait for devices alone: members tell each other first that they have come.
#pragma once

#include "worker/machine/local_device.h"

namespace capstan::train {

// `device`: of CUDA's.
Result<std::unique_ptr<DeviceBucketAdder>> CreateDeviceAdder(int device, const AdderOptions& options);

}  // namespace capstan::train
