#include "worker/device/load_device.h"

#include <dlfcn.h>

#include "common/base/build_id.h"

namespace capstan::train {

Result<const DevicePlugin*> LoadDevicePlugin(const std::string& folder, DeviceKind kind) {
  const std::string word = kind == DeviceKind::kCuda ? "cuda" : "emulated";
  const std::string path = folder + "/libcapstan_" + word + ".so";
  const std::string otherwise = std::string(kind == DeviceKind::kCuda ? "; reinstall" : "; build") +
                                " capstan as a whole, or" + " set worker.device = \"cpu\"";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Unsupported("worker.device = \"" + word + "\" needs a plug-in that cannot be loaded: " + dlerror() +
                       (kind == DeviceKind::kCuda ? " (it is built where nvcc is)"
                                                  : " (it is built with capstan's tests, and never installed)") +
                       otherwise);
  }
  const auto* const plugin = static_cast<const DevicePlugin*>(dlsym(library, DevicePlugin::kSymbol));
  if (plugin == nullptr || plugin->abi != DevicePlugin::kAbi || std::string(plugin->build_id) != kBuildId) {
    const bool readable = plugin != nullptr && plugin->abi == DevicePlugin::kAbi;
    const std::string build = readable ? std::string("of build ") + plugin->build_id : "of another age";
    (void)dlclose(library);
    return Unsupported(path + " is " + build + ", this worker of build " + kBuildId + otherwise);
  }
  return plugin;
}

}  // namespace capstan::train
