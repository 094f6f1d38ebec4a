// The part of NCCL that capstan uses, for a machine without it. It takes the place of NVIDIA's header of the same name.
//
// Limits: CAPSTAN_EMULATED_NCCL is the path of the library; unless it is set, there is no NCCL. The library is given
//         the emulated cudaLaunchHostFunc, with which it enqueues its work on streams (tests/nccl_stand_in).
// Fails:  as NCCL.
#pragma once

#include <climits>
#include <cstddef>

#include "tests/emulation/cuda/cuda_runtime.h"

// NOLINTBEGIN: the names are NCCL's.
extern "C" {
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclRedOp_t : int { ncclSum = 0 };
enum ncclDataType_t : int { ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 };

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { sizeof(ncclConfig_t), 0xcafebeef, 22809, INT_MIN }

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream);

// Not part of NCCL: gives the stand-in library the function that enqueues work on a stream. Call it first.
void capstan_nccl_use_device(cudaError_t (*launch_host_func)(cudaStream_t, cudaHostFn_t, void*));
}
// NOLINTEND
