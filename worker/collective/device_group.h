// DeviceGroup: collectives among workers on arrays in the memory of their devices.
//
// Kind:   owned by the thread that enqueues on the compute stream; only Abort may come from another thread. A call only
//         enqueues. It runs on the group's stream, after everything that is on the compute stream at that time; the
//         compute stream continues meanwhile. All members make the same calls in the same order.
// Limits: kCallsMax calls in flight; one more gets kBusy.
// Fails:  kTimeout when a call is not done by its deadline. kUnreachable when the library lost a member or reports an
//         error, and after Abort. The group is then over. Calls in flight are given up, their arrays have undefined
//         contents, and work ordered after them on other streams runs on those contents. Every later call returns the
//         first failure, except a Wait for a call that was done before it. Once a call has returned the failure,
//         nothing accesses the arrays any more and they may be freed. The other members fail at their deadlines. The
//         remaining members form a new group under the next generation.
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
  // Polled while the group is formed and while a call is enqueued; a status that is not OK ends the group.
  std::function<Status()> look_up = [] { return Status(); };
  // Polled by another thread while calls are in flight; a status that is not OK ends the group.
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

  // These calls do what Group's calls of the same names do. The array belongs to the group until Wait has returned for
  // the call; work that was enqueued on a stream after OrderAfter may use the array earlier.
  virtual Result<Ticket> SubmitAllReduce(const DeviceArray& data, Deadline deadline) = 0;
  // `all` is read only at the root: size() times as many numbers as `mine`, by rank. The root's `mine` is its own part
  // of `all`, or lies outside `all`. On other members the call may finish before the root has all parts.
  virtual Result<Ticket> SubmitGather(const DeviceArray& mine, void* all, int root, Deadline deadline) = 0;

  // Work enqueued on `stream` from now on runs after that call. Before the host waits for that work, it must Wait for
  // the call, because only Wait reports whether the call succeeded.
  virtual Status OrderAfter(Ticket ticket, CUstream_st* stream) = 0;
  // Waits until that call is done or the group is over, which it is at the call's deadline.
  virtual Status Wait(Ticket ticket) = 0;
  // Waits no longer than `until`. kBusy: the call continues.
  virtual Status Wait(Ticket ticket, Deadline until) = 0;

  virtual void Abort() = 0;
};

}  // namespace capstan::collective
