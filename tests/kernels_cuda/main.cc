// The runner of kernels on a device: where there is none, it says so and exits with 77, which is a loud skip.
#include <cuda_runtime.h>

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "common/float_control.h"

int main(int argc, char** argv) {
  const capstan::FloatControl control;
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "SKIPPED: no CUDA device (%s)\n", cudaGetErrorString(status));
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
