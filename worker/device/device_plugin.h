// DevicePlugin: what libcapstan_cuda.so and libcapstan_emulated.so give to the process that loads them, through their
// one exported symbol.
//
// Kind:   a table of constants; lives as long as the process.
// Why:    no binary needs CUDA to start. Behind `create` are types of C++, so `abi` and `build_id` are looked at first:
//         one build's classes are not another's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/cuda/library_search.h"
#include "worker/device/job_model.h"

namespace capstan::train {

struct DeviceOptions {
  std::optional<std::uint32_t> index = {};  // of the machine's devices; none: `local_rank` modulo their number
  std::uint32_t local_rank = 0;             // of this worker among those of its machine
  kernels::LibrarySearch libraries = {};    // where cuBLASLt and cuDNN may be
};

struct DevicePlugin {
  static constexpr std::uint32_t kAbi = 1;
  static constexpr char kSymbol[] = "capstan_device_plugin";

  std::uint32_t abi;
  const char* build_id;
  Result<std::unique_ptr<JobModel>> (*create)(const DeviceOptions& options, Precision precision,
                                              const nn::ModelShape& shape);
};

}  // namespace capstan::train
