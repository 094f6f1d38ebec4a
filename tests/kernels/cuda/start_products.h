// StartProducts: prepares a test's device for matrix products.
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
