// DeviceGroup: collectives among workers on arrays in the memory of their devices.
//
// Kind:   owned by the thread that enqueues on the compute stream; only Abort may come from another thread. A call only
//         enqueues. It runs on the group's stream, after everything that is on the compute stream at that time; the
//         compute stream continues meanwhile. All members make the same calls in the same order.
// Limits: kCallsMax calls in flight; one more gets kBusy.
// Fails:  kTimeout when a call is not done by its deadline. kUnreachable when the library lost a member or reports an
//         error, and after Abort. Also with the status of `look_up` or `watch`. The group is then over: calls in flight
//         are given up, their arrays have undefined contents, and work ordered after them on other streams runs on
//         those contents. Every later call returns the first failure, except a Wait for a call that was done before.
//         Once a call has returned the failure, the group's stream does not access the arrays any more. The other
//         members fail at their deadlines.
// Parity: all members get the same bits. The library chooses the order of additions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/types.h"
#include "kernels/cuda/library_search.h"
#include "worker/collective/mesh.h"

struct CUstream_st;  // a pointer to it is a cudaStream_t

namespace capstan::collective {

struct DeviceArray {
  void* data = nullptr;  // device memory
  std::size_t count = 0;
  Encoding numbers = Encoding::kFp32;
};

struct DeviceGroupOptions {
  int rank = 0;
  int size = 1;
  std::uint64_t generation = 0;  // members of another generation are refused
  NameOfRank name_of = {};
  kernels::LibrarySearch libraries = {};  // where to look for NCCL
  // Polled while the group is formed and while a call is enqueued; an error that it returns ends the group.
  std::function<Status()> look_up = [] { return Status(); };
  // Polled by another thread while calls are in flight; an error that it returns ends the group.
  std::function<Status()> watch = [] { return Status(); };
};

class DeviceGroup {
 public:
  using Ticket = std::uint64_t;  // number of a call; calls finish in this order
  static constexpr std::size_t kCallsMax = 64;

  // Gives up calls that are not done. Streams that were ordered after its calls must be idle.
  virtual ~DeviceGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // SubmitAllReduce and SubmitGather do what AllReduce and Gather of Group do. The array belongs to the group until
  // Wait has returned for the call. Only work that was enqueued on a stream after OrderAfter may use the array earlier.
  virtual Result<Ticket> SubmitAllReduce(const DeviceArray& data, Deadline deadline) = 0;
  // `all` is used at the root only: size() times as many numbers as `mine`, by rank. The root's `mine` is its own part
  // of `all`, or lies outside `all`. On other members the call may finish before the root has all parts.
  virtual Result<Ticket> SubmitGather(const DeviceArray& mine, void* all, int root, Deadline deadline) = 0;

  // Work enqueued on `stream` from now on runs after that call. It runs even if the call has failed: only Wait reports
  // whether the call succeeded, so the host must Wait for the call before it uses the results.
  virtual Status OrderAfter(Ticket ticket, CUstream_st* stream) = 0;
  // Waits until that call is done or the group is over. The group is over at the call's deadline at the latest.
  virtual Status Wait(Ticket ticket) = 0;
  // Waits no longer than `until`. kBusy: the call continues.
  virtual Status Wait(Ticket ticket, Deadline until) = 0;

  virtual void Abort() = 0;
};

}  // namespace capstan::collective
