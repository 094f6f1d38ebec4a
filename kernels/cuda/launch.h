// Launch: the only way to start a kernel.
//
// Fails:  as CudaContext. For a grid without blocks nothing is started.
// Why:    without <<< >>> a C++ compiler can compile the same source for the emulation.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/base/context.h"

namespace capstan::kernels {

struct Grid {
  dim3 blocks, threads;
};

// Returns the grid for `count` elements if a block has `threads` threads and a thread has `per_thread` elements.
inline Grid GridFor(std::int64_t count, unsigned threads, std::int64_t per_thread = 1) {
  const std::int64_t per_block = static_cast<std::int64_t>(threads) * per_thread;
  return {dim3(static_cast<unsigned>((count + per_block - 1) / per_block)), dim3(threads)};
}

template <class... Parameters>
void Launch(CudaContext& context, void (*kernel)(Parameters...), const Grid& grid,
            std::type_identity_t<Parameters>... arguments) {
  if (!context.status().ok() || grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  void* pointers[] = {&arguments...};
  context.Note(cudaLaunchKernel(kernel, grid.blocks, grid.threads, pointers, 0, context.stream()), "starting a kernel");
}

}  // namespace capstan::kernels
