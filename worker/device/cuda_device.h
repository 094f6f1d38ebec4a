// CudaDevice: the ModelDevice of a DeviceModel: lets the model's device join groups of workers' devices.
//
// Kind:   owned by the model; used by its thread.
#pragma once

#include <memory>

#include "kernels/base/context.h"
#include "worker/device/flat_sum.h"
#include "worker/device/model_device.h"

namespace capstan::train {

class CudaDevice final : public ModelDevice {
 public:
  // `context`: its stream computes the gradients; it outlives this object.
  explicit CudaDevice(kernels::CudaContext& context) : context_(context) {}

  Result<GroupDevice> FindGroupDevice(const kernels::LibrarySearch& libraries) const override;
  Result<DeviceSum*> Sum(std::span<float> host, Encoding wire) override;
  Result<std::unique_ptr<collective::DeviceGroup>> CreateGroup(const collective::DeviceGroupOptions& options,
                                                               collective::Rendezvous* rendezvous,
                                                               collective::Deadline deadline) override;
  DeviceAdderMaker AdderMaker() const override;

  // The sum to which the model adds its gradients now; null: the model copies its gradients to the host.
  FlatSum* open_sum() const { return sum_ != nullptr && sum_->is_open() ? sum_.get() : nullptr; }

 private:
  kernels::CudaContext& context_;
  std::unique_ptr<FlatSum> sum_;  // null until Sum is called
};

}  // namespace capstan::train
