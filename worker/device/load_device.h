// LoadDevicePlugin: brings in who computes on a device. It stays until the process ends.
//
// Fails:  kUnsupported: the plug-in is not there, or is another build's.
#pragma once

#include <string>

#include "common/config/job/device.h"
#include "worker/device/device_plugin.h"

namespace capstan::train {

// libcapstan_cuda.so, libcapstan_emulated.so in `folder`. `kind` is not kCpu.
Result<const DevicePlugin*> LoadDevicePlugin(const std::string& folder, DeviceKind kind);

}  // namespace capstan::train
