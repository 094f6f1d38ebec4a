// LoadDevicePlugin: loads the plug-in that computes on a device. The plug-in stays loaded until the process ends.
//
// Fails:  kUnsupported: the plug-in is missing, or belongs to another build.
#pragma once

#include <string>

#include "common/config/job/device.h"
#include "worker/device/device_plugin.h"

namespace capstan::train {

// Loads libcapstan_cuda.so or libcapstan_emulated.so from `folder`. `kind` is not kCpu.
Result<const DevicePlugin*> LoadDevicePlugin(const std::string& folder, DeviceKind kind);

}  // namespace capstan::train
