// CreateDeviceModel: a job's model on a device of this machine.
//
// Fails:  kUnsupported: no device, one that is too old, a driver that is too old, no cuBLASLt. Also as CreateModel.
#pragma once

#include <memory>

#include "worker/device/device_plugin.h"

namespace capstan::train {

Result<std::unique_ptr<JobModel>> CreateDeviceModel(const DeviceOptions& options, Precision precision,
                                                    const nn::ModelShape& shape);

}  // namespace capstan::train
