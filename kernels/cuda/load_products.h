// LoadProducts: gives a context who computes its matrix products.
//
// Fails:  kUnsupported, and where cuBLASLt was looked for.
#pragma once

#include <string>

#include "kernels/base/context.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// Returns the name of what it found, for the numeric class.
Result<std::string> LoadProducts(const LibrarySearch& search, CudaContext* context);

}  // namespace capstan::kernels
