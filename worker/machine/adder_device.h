// AdderDevice: a worker's device, on which its machine's workers can add up their pushes.
//
// Kind:   a value; the thread that calls `make` must also use the adder.
// Fails:  `make` as CUDA; Form as ModelDevice::CreateGroup.
#pragma once

#include <functional>
#include <memory>

#include "worker/collective/device_group.h"
#include "worker/collective/group_device.h"
#include "worker/collective/rendezvous.h"
#include "worker/machine/bucket_adder.h"

namespace capstan::train {

// A BucketAdder that adds on the first worker's device. Form must be called first.
class DeviceBucketAdder : public BucketAdder {
 public:
  // Joins the members' devices into a group. All members call Form, each before its other calls.
  virtual Status Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
                      collective::Deadline deadline) = 0;
};

// Makes an adder on the device, without its buffers: they grow when it is used. Does not wait for other members.
using DeviceAdderMaker = std::function<Result<std::unique_ptr<DeviceBucketAdder>>(const AdderOptions& options)>;

struct AdderDevice {
  GroupDevice device;
  DeviceAdderMaker make;
};

}  // namespace capstan::train
