// LoadProducts: gives a context the library for its matrix products.
//
// Fails:  kUnsupported; if cuBLASLt was not found, the message names the places searched.
#pragma once

#include <string>

#include "kernels/base/context.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// Returns the library's name and version. The bits of gradients depend on them, so they are part of the worker's
// numeric class, which must be the same for all workers of a job.
Result<std::string> LoadProducts(const LibrarySearch& search, CudaContext* context);

}  // namespace capstan::kernels
