// LocalDevice: the device of a worker, as its machine's workers may add up there what they push.
//
// Kind:   a value; `make` is for the thread that uses what it makes.
// Fails:  `make` as CUDA; Form as CreateGroup of a JobModel.
#pragma once

#include <functional>
#include <memory>

#include "worker/collective/device_group.h"
#include "worker/collective/group_device.h"
#include "worker/collective/rendezvous.h"
#include "worker/machine/bucket_adder.h"

namespace capstan::train {

// A BucketAdder of a group of devices.
class DeviceBucketAdder : public BucketAdder {
 public:
  // Before all else; all members call it.
  virtual Status Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
                      collective::Deadline deadline) = 0;
};

// Takes of the device what this worker needs; of other members it knows nothing.
using DeviceAdderMaker = std::function<Result<std::unique_ptr<DeviceBucketAdder>>(const AdderOptions& options)>;

struct LocalDevice {
  GroupDevice device;
  DeviceAdderMaker make;
};

}  // namespace capstan::train
