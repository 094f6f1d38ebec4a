// CreateDeviceModel: a job's model on a device of this machine.
//
// Kind:   the model keeps the device until it is destroyed.
// Fails:  kUnsupported: no device, one that is too old, a driver that is too old, no cuBLASLt. kInvalid: too little
// memory
//         of the device, with what is needed, what there is, and what to change.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/train/job_model.h"

namespace capstan::train {

struct DeviceOptions {
  int device = 0;
  std::vector<std::string> library_folders = {};  // where cuBLASLt may be, besides the usual places
};

Result<std::unique_ptr<JobModel>> CreateDeviceModel(const DeviceOptions& options, Precision precision,
                                                    const nn::ModelShape& shape);

}  // namespace capstan::train
