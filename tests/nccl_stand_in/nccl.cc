// Stand-ins for the functions of libnccl.so.2 that capstan loads.
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "tests/nccl_stand_in/communicator.h"

namespace {

using capstan::stand_in::Call;
using capstan::stand_in::Communicator;
using capstan::stand_in::Kind;
using capstan::stand_in::kRanksMax;

std::atomic<capstan::stand_in::LaunchHostFunc> launch{nullptr};
std::atomic<int> ids{0};

// The calls between ncclGroupStart and ncclGroupEnd, which begin together.
struct OpenGroup {
  bool is_open = false;
  ncclComm_t comm = nullptr;
  std::vector<Call> calls;
};
thread_local OpenGroup group;

ncclResult_t Begin(ncclComm_t comm, const Call& call) {
  if (!group.is_open) return comm->communicator->Begin({call});
  if (group.comm != nullptr && group.comm != comm) return ncclInvalidUsage;
  group.comm = comm;
  group.calls.push_back(call);
  return ncclInProgress;
}

}  // namespace

// NOLINTBEGIN: the names are NCCL's.
void capstan_nccl_use_device(cudaError_t (*launch_host_func)(cudaStream_t, cudaHostFn_t, void*)) {
  launch = launch_host_func;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string name =
      "/capstan-nccl-" + std::to_string(getpid()) + "-" + std::to_string(now) + "-" + std::to_string(ids++);
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) { return comm == nullptr ? "" : comm->communicator->last_error(); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  *comm = nullptr;
  if (size < 1 || size > kRanksMax || rank < 0 || rank >= size || config == nullptr || config->blocking != 0 ||
      config->magic != 0xcafebeef || launch == nullptr) {
    return ncclInvalidArgument;
  }
  *comm = new ncclComm{std::make_shared<Communicator>(id.internal, rank, size, launch.load())};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = comm->communicator->State();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm->communicator->Finalize(); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm->communicator->is_final()) return ncclInvalidUsage;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->communicator->Abort();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (group.is_open) return ncclInvalidUsage;
  group.is_open = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  OpenGroup ended = std::exchange(group, {});
  if (!ended.is_open) return ncclInvalidUsage;
  return ended.comm == nullptr ? ncclSuccess : ended.comm->communicator->Begin(std::move(ended.calls));
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  return Begin(comm, {Kind::kAllReduce, send, receive, count, type, 0, stream});
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  return Begin(comm, {Kind::kSend, send, nullptr, count, type, to, stream});
}

ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  return Begin(comm, {Kind::kReceive, nullptr, receive, count, type, from, stream});
}
// NOLINTEND
