// StartConvolutions: loads cuDNN for a test's device.
#pragma once

#include <cstdlib>
#include <string>

#include "kernels/cuda/convolutions.h"
#include "tests/kernels/cuda/device.h"

namespace capstan::kernels {

// Loads cuDNN, for the emulated device the emulation's. Returns false, after a message, if the machine has no cuDNN.
inline bool StartConvolutions(Device& device) {
  setenv("CAPSTAN_EMULATED_CUDNN", "1", 1);
  const Status status = LoadConvolutions(SearchOf(std::getenv), &device.context()).status();
  unsetenv("CAPSTAN_EMULATED_CUDNN");
  if (!status.ok()) WARN(status.message());
  return status.ok();
}

}  // namespace capstan::kernels
