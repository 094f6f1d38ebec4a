// ModelDevice: the device that a job's model computes on, as a member of groups of workers that add up on their
// devices.
//
// Kind:   owned by the model, and used by the model's thread.
// Fails:  with kUnsupported if the device cannot join a group; also as CUDA.
// Why:    a model only computes gradients. Which workers add them up, and where, is decided outside the model.
#pragma once

#include <memory>
#include <span>

#include "worker/collective/device_group.h"
#include "worker/collective/rendezvous.h"
#include "worker/device/device_sum.h"
#include "worker/machine/adder_device.h"

namespace capstan::train {

class ModelDevice {
 public:
  virtual ~ModelDevice() = default;

  // Returns what other members need to know of the device. kUnsupported, with the reason: it cannot join a group.
  virtual Result<GroupDevice> FindGroupDevice(const kernels::LibrarySearch& libraries) const = 0;
  // The sum of the model's gradients, which Return copies to `host`. `host` has one element per parameter and outlives
  // the model. The first call makes the sum; later calls must have the same arguments. kUnsupported if `host` cannot be
  // pinned.
  virtual Result<DeviceSum*> Sum(std::span<float> host, Encoding wire) = 0;
  // Creates a group that reduces arrays on the device among workers, while the model computes there. Destroy the group
  // before the model.
  virtual Result<std::unique_ptr<collective::DeviceGroup>> CreateGroup(const collective::DeviceGroupOptions& options,
                                                                       collective::Rendezvous* rendezvous,
                                                                       collective::Deadline deadline) = 0;
  // Returns a function that makes adders on the device, which run while the model computes there. The function and the
  // adders may outlive the model.
  virtual DeviceAdderMaker AdderMaker() const = 0;
};

}  // namespace capstan::train
