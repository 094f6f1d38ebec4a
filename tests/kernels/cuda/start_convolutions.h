// StartConvolutions: prepares a test's device that has cuDNN.
#pragma once

#include <cstdlib>
#include <string>

#include "kernels/cuda/convolutions.h"
#include "tests/kernels/cuda/device.h"

namespace capstan::kernels {

// Loads cuDNN. False, with a message, on a machine without cuDNN; the emulated device has it.
inline bool StartConvolutions(Device& device) {
  setenv("CAPSTAN_EMULATED_CUDNN", "1", 1);
  const Status status = LoadConvolutions(SearchOf(std::getenv), &device.context()).status();
  unsetenv("CAPSTAN_EMULATED_CUDNN");
  if (!status.ok()) WARN(status.message());
  return status.ok();
}

}  // namespace capstan::kernels
