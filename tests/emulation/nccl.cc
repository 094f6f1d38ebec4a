#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/cuda/nccl.h"

namespace capstan::kernels {

Result<Nccl> OpenNccl(const LibrarySearch&) {
  const char* const path = std::getenv("CAPSTAN_EMULATED_NCCL");
  if (path == nullptr) {
    return Unsupported("the emulated device has no NCCL unless CAPSTAN_EMULATED_NCCL is the path of one for it");
  }
  const std::filesystem::path library(path);
  CAPSTAN_ASSIGN_OR_RETURN(Nccl nccl,
                           OpenNcclNamed({.folders = {library.parent_path().string()}}, library.filename().string()));
  using UseDevice = decltype(&capstan_nccl_use_device);
  const auto use_device = reinterpret_cast<UseDevice>(dlsym(nccl.library.get(), "capstan_nccl_use_device"));
  if (use_device == nullptr) {
    return Unsupported("CAPSTAN_EMULATED_NCCL=" + std::string(path) + " is not for the emulated device");
  }
  use_device(&cudaLaunchHostFunc);
  return nccl;
}

}  // namespace capstan::kernels
