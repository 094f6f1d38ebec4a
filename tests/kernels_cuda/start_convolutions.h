// StartConvolutions: a device of a test that has cuDNN.
#pragma once

#include <cstdlib>
#include <string>

#include "kernels/cuda/convolutions.h"
#include "tests/kernels_cuda/device.h"

namespace capstan::kernels {

// False, and says so, on a machine without it; the emulated one has it.
inline bool StartConvolutions(Device& device) {
  setenv("CAPSTAN_EMULATED_CUDNN", "1", 1);
  const LibrarySearch search{.toolkit = "/usr/local/cuda", .path = "/usr/bin:/usr/local/bin"};
  const Status status = LoadConvolutions(search, &device.context()).status();
  unsetenv("CAPSTAN_EMULATED_CUDNN");
  if (!status.ok()) WARN(status.message());
  return status.ok();
}

}  // namespace capstan::kernels
