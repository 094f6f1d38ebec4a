#include "common/base/build_id.h"
#include "worker/device/create_device_model.h"

// The only exported symbol of a plug-in.
extern "C" {
extern const capstan::train::DevicePlugin capstan_device_plugin;
const capstan::train::DevicePlugin capstan_device_plugin = {capstan::train::DevicePlugin::kAbi, capstan::kBuildId,
                                                            capstan::train::CreateDeviceModel};
}
