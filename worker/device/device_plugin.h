// DevicePlugin: the type of the one symbol that libcapstan_cuda.so and libcapstan_emulated.so export.
//
// Kind:   a table of constants; lives as long as the process.
// Why:    with a plug-in no binary needs CUDA to start. `create` uses C++ types, which may differ between builds, so
//         the loader checks `abi` and `build_id` first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/cuda/library_search.h"
#include "worker/device/job_model.h"

namespace capstan::train {

struct DeviceOptions {
  std::optional<std::uint32_t> index = {};  // the machine's device; nullopt: `local_rank` modulo the number of devices
  std::uint32_t local_rank = 0;             // this worker's index on its machine
  kernels::LibrarySearch libraries = {};    // where to look for cuBLASLt and cuDNN
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
