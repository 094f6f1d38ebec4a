// CreateDeviceAdder: a BucketAdder that gathers over NCCL on the first worker's device, and adds there.
//
// Kind:   owned by the thread that makes it; uses its own streams.
// Limits: two buckets in flight. Each takes pinned memory for this worker's parts and, at the first worker, for the
//         sums. It takes the same on the device and, at the first worker, a bucket for each part of each worker.
// Fails:  as DeviceGroup; or with a CUDA error, after which the device may be lost.
// Why:    the parts come from the host exactly as they would be pushed: rounded, and added up along the tree of this
//         worker's slots. So the adder is independent of the model's memory on the device and of the thread that
//         computes. Members agree over Gloo that all have reached a bucket, so a device waits only for other devices.
#pragma once

#include "worker/machine/adder_device.h"

namespace capstan::train {

// `device`: CUDA's device number.
Result<std::unique_ptr<DeviceBucketAdder>> CreateDeviceAdder(int device, const AdderOptions& options);

}  // namespace capstan::train
