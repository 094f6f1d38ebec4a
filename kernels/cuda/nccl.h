// Nccl: the functions of NCCL, from the library found at run time.
//
// Fails:  kUnsupported; if the library was not found, the message names the places searched.
// Why:    NCCL is not shipped. The emulated device uses another library with functions of the same names
//         (tests/emulation/cuda/nccl.h).
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// Function names without the prefix "nccl".
struct Nccl {
  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclCommFinalize) CommFinalize = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;

  int version = 0;                // 22809 stands for 2.28.9
  std::shared_ptr<void> library;  // keeps the library open
};

// Returns "2.28.9" for 22809.
std::string NcclVersionText(int version);

Result<Nccl> OpenNccl(const LibrarySearch& search);

// Opens the library with the file name `name`.
Result<Nccl> OpenNcclNamed(const LibrarySearch& search, const std::string& name);

}  // namespace capstan::kernels
