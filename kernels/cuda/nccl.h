// Nccl: the functions of NCCL, of the library that was found.
//
// Fails:  kUnsupported, and where it was looked for.
// Why:    as Cudnn. The emulated device's is another library, which says so itself (kernels/emulation/cuda/nccl.h).
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/cuda/library_search.h"

namespace capstan::kernels {

// By their names without "nccl".
struct Nccl {
  decltype(&ncclGetVersion) GetVersion = nullptr;
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclCommSplit) CommSplit = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclCommFinalize) CommFinalize = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
  decltype(&ncclReduce) Reduce = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;

  int version = 0;                // 22809 is 2.28.9
  std::shared_ptr<void> library;  // stays open as long as this
};

// 2.28.9 of 22809.
std::string NcclVersionText(int version);

Result<Nccl> OpenNccl(const LibrarySearch& search);

// The one of that file name.
Result<Nccl> OpenNcclNamed(const LibrarySearch& search, const std::string& name);

}  // namespace capstan::kernels
