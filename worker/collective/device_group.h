// DeviceGroup: collectives among workers on arrays that lie in the memory of their devices.
//
// Kind:   owned by the thread that enqueues on the stream that computes; Abort alone may come from another one. A call
//         only enqueues: it runs on a stream of the group's own, after all that the stream that computes has been given
//         by then, while that goes on. All members make the same calls in the same order.
// Limits: kCallsMax calls are on their way; one more gets kBusy.
// Fails:  kTimeout when a call was not done at its deadline, kUnreachable when the library lost a member or reports an
//         error, and after Abort. The group is over then: what was on its way is given up, its arrays hold anything,
//         what was ordered after it on other streams runs with that, and every later call returns the first failure,
//         but for a Wait for what was done before it. Whoever has been told of a failure may free the arrays: nothing
//         touches them any more. The other members end at their deadlines. A group of those that are left is formed
//         anew, under the next generation.
// Parity: all members get the same bits. In which order it adds up is the library's affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/types.h"
#include "kernels/cuda/library_search.h"
#include "worker/collective/mesh.h"

struct CUstream_st;  // *: cudaStream_t

namespace capstan::collective {

struct DeviceArray {
  void* data = nullptr;  // the device's
  std::size_t count = 0;
  Encoding numbers = Encoding::kFp32;
};

struct DeviceGroupOptions {
  int rank = 0;
  int size = 1;
  std::uint64_t generation = 0;  // members of another one are refused
  NameOfRank name_of = {};
  kernels::LibrarySearch libraries = {};  // where NCCL may be
  // Asked now and then while the group is formed and while a call is being enqueued; what is not OK ends the group.
  std::function<Status()> look_up = [] { return Status(); };
  // Asked by another thread, now and then while calls are on their way; what is not OK ends the group.
  std::function<Status()> watch = [] { return Status(); };
};

class DeviceGroup {
 public:
  using Ticket = std::uint64_t;  // of a call; those before it are done before it is
  static constexpr std::size_t kCallsMax = 64;

  // Gives up what is not done. Streams that were ordered after its calls are idle by then.
  virtual ~DeviceGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // As Group's. The array is the group's until Wait has returned for the call, or another stream has been ordered
  // after it.
  virtual Result<Ticket> SubmitAllReduce(const DeviceArray& data, Deadline deadline) = 0;
  virtual Result<Ticket> SubmitReduceScatter(const DeviceArray& data, Deadline deadline) = 0;
  virtual Result<Ticket> SubmitAllGather(const DeviceArray& data, Deadline deadline) = 0;
  virtual Result<Ticket> SubmitBroadcast(const DeviceArray& data, int root, Deadline deadline) = 0;
  virtual Result<Ticket> SubmitReduce(const DeviceArray& data, int root, Deadline deadline) = 0;
  // `all`, at the root: size() times as many numbers as `mine`, by rank; elsewhere it is not looked at. `mine` is its
  // own place there, or lies outside. Elsewhere it may be done before the root has all.
  virtual Result<Ticket> SubmitGather(const DeviceArray& mine, void* all, int root, Deadline deadline) = 0;
  virtual Result<Ticket> SubmitBarrier(Deadline deadline) = 0;

  // What `stream` is given from now on runs after that call. Before the host waits for it, the host is to Wait for the
  // call: that alone says whether the arrays hold what they should.
  virtual Status OrderAfter(Ticket ticket, CUstream_st* stream) = 0;
  // Until that call is done; by its deadline it is, or the group is over.
  virtual Status Wait(Ticket ticket) = 0;
  // No longer than `until`. kBusy: it goes on.
  virtual Status Wait(Ticket ticket, Deadline until) = 0;

  // A group of some of these ranks, counted anew in the order given, for the same thread; waits for all calls so far.
  // All members call it with the same ranks; those who are not among them get none. Only the group of all ranks can be
  // split. A failure of one of the two groups is not the other's.
  virtual Result<std::unique_ptr<DeviceGroup>> Split(const std::vector<int>& ranks, Deadline deadline) = 0;

  virtual void Abort() = 0;
};

}  // namespace capstan::collective
