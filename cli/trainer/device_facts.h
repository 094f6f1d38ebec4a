// ReadDevice: whether a worker on this machine can compute on a GPU.
//
// Kind:   loads the plug-in, which stays loaded, and asks the driver.
// Fails:  never: the facts say why not. In a build without the trainer they say that.
#pragma once

#include <string>

namespace capstan::cli {

struct DeviceFacts {
  std::string driver;          // version of NVIDIA's driver; empty: it is not loaded
  unsigned count = 0;          // GPUs that the driver lists
  std::string plugin_problem;  // why the plug-in cannot be used; empty: it can
  std::string use_problem;     // why a small model cannot be made on the GPU; empty: it can, or was not tried
};

// `plugins`: the folder of the plug-in.
DeviceFacts ReadDevice(const std::string& plugins);

}  // namespace capstan::cli
