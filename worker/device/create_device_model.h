// CreateDeviceModel: a job's model on a device of this machine.
//
// Kind:   the model uses the device until the model is destroyed.
// Fails:  kUnsupported: no device, one that is too old, a driver that is too old, no cuBLASLt.
#pragma once

#include <memory>

#include "worker/device/device_plugin.h"

namespace capstan::train {

Result<std::unique_ptr<JobModel>> CreateDeviceModel(const DeviceOptions& options, Precision precision,
                                                    const nn::ModelShape& shape);

}  // namespace capstan::train
