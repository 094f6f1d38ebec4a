// StartProducts: gives a test's device cuBLASLt, which for the emulated device is the emulation's.
#pragma once

#include <cstdlib>
#include <string>

#include "kernels/cuda/load_products.h"
#include "tests/kernels/cuda/device.h"

namespace capstan::kernels {

inline void StartProducts(Device& device) {
  REQUIRE(LoadProducts(SearchOf(std::getenv), &device.context()).status().message() == "");
}

}  // namespace capstan::kernels
