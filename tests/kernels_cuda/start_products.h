// StartProducts: a device of a test that computes matrix products.
#pragma once

#include <string>

#include "kernels/cuda/load_products.h"
#include "tests/kernels_cuda/device.h"

namespace capstan::kernels {

inline void StartProducts(Device& device) {
  const LibrarySearch search{.toolkit = "/usr/local/cuda", .path = "/usr/bin:/usr/local/bin"};
  REQUIRE(LoadProducts(search, &device.context()).status().message() == "");
}

}  // namespace capstan::kernels
