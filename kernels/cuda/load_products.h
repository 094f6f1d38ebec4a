// LoadProducts: gives a context who computes its matrix products.
//
// Fails:  kUnsupported, and where cuBLASLt was looked for.
#pragma once

#include <string>
#include <vector>

#include "kernels/context.h"

namespace capstan::kernels {

// Looks in `folders` first. Returns the name of what it found, for the numeric class.
Result<std::string> LoadProducts(const std::vector<std::string>& folders, CudaContext* context);

}  // namespace capstan::kernels
