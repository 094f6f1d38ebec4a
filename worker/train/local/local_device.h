// LocalDevice: the device of a worker, as its machine's workers may add up there what they push.
//
// Kind:   a value; `connect` is for the thread that uses what it makes.
// Fails:  `connect` as CreateGroup of a JobModel.
#pragma once

#include <functional>
#include <memory>

#include "worker/collective/device_group.h"
#include "worker/collective/rendezvous.h"
#include "worker/train/group_device.h"
#include "worker/train/local/bucket_adder.h"

namespace capstan::train {

// Forms a group of devices; all of its members call it.
using DeviceAdderMaker = std::function<Result<std::unique_ptr<BucketAdder>>(
    const collective::DeviceGroupOptions& group, const AdderOptions& options, collective::Rendezvous* rendezvous,
    collective::Deadline deadline)>;

struct LocalDevice {
  GroupDevice device;
  DeviceAdderMaker connect;
};

}  // namespace capstan::train
