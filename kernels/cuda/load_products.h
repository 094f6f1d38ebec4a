// LoadProducts: gives a context the library for its matrix products.
//
// Fails:  kUnsupported, naming the places searched for cuBLASLt.
#pragma once

#include <string>

#include "kernels/base/context.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// Returns the library's name, for the numeric class.
Result<std::string> LoadProducts(const LibrarySearch& search, CudaContext* context);

}  // namespace capstan::kernels
