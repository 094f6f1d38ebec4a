// NcclCommunicator: an NCCL communicator with deadlines, and its calls in flight.
//
// Kind:   owned by one thread; only Abort may come from another thread. An inner thread checks calls in flight, every
//         kLook while there are any. All calls to NCCL are made under the lock of `shared_`.
// Limits: kCallsMax calls in flight.
// Fails:  the first failure is final and aborts the communicator. When a call returns the failure, the stream is idle.
// Why:    a wait for work on a device cannot have a deadline. So the inner thread aborts the communicator when a
//         deadline passes. The abort ends the work on the device, and with it every wait for that work.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mailbox.h"
#include "kernels/cuda/nccl.h"
#include "worker/collective/device_group.h"
#include "worker/device/cuda_handles.h"

namespace capstan::train {

// A copy on the device; none if `bytes` is 0.
struct NcclCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

struct NcclMember {
  int rank = 0;
  int size = 1;
  collective::NameOfRank name_of;
  std::function<Status()> look_up = [] { return Status(); };
  std::function<Status()> watch = [] { return Status(); };  // called by the inner thread
};

class NcclCommunicator {
 public:
  using Deadline = collective::Deadline;
  using Ticket = collective::DeviceGroup::Ticket;
  static constexpr std::size_t kCallsMax = collective::DeviceGroup::kCallsMax;
  static constexpr std::chrono::milliseconds kLook{10};

  NcclCommunicator(kernels::CudaContext& context, std::shared_ptr<const kernels::Nccl> nccl, NcclMember member);
  // Finalizes the communicator if all calls succeeded, so that their last data is sent; else aborts it.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclMember& member() const { return member_; }
  cudaStream_t stream() const { return stream_.get(); }

  // Call this first. If it fails, call nothing else.
  Status Form(const ncclUniqueId& id, Deadline deadline);

  // Makes stream() wait for what the context's stream has been given so far, copies `copy`, and calls `enqueue`, which
  // puts an NCCL call on stream(). `what`: the call's name, for messages.
  using Enqueue = std::function<ncclResult_t(ncclComm_t)>;
  Result<Ticket> Submit(std::string what, Deadline deadline, const Enqueue& enqueue, const NcclCopy& copy = {});
  Status OrderAfter(Ticket ticket, cudaStream_t stream);
  Status Wait(Ticket ticket);
  Status Wait(Ticket ticket, Deadline until);
  void Abort();

 private:
  struct Call {
    std::string what;
    Deadline deadline;
  };
  struct Shared {
    ncclComm_t comm = nullptr;  // null: not formed yet, or over
    std::deque<Call> calls;     // calls in flight, in order
    Ticket done = 0;            // number of calls that succeeded; the first of `calls` follows
    Status failure;
    bool closes = false;
  };

  void Watch();
  // The functions with a Shared parameter are called under the lock of `shared_`. TakeDone removes calls that are done
  // from the list. Those up to ticket `known` are done; the others it asks the device about.
  void TakeDone(Shared& shared, Ticket known);
  void Look(Shared& shared);
  void End(Shared& shared, Status failure);
  ncclResult_t StateOf(const Shared& shared) const;
  Status Trouble(const Shared& shared, const std::string& what, ncclResult_t result) const;
  Status Missed(const std::string& what) const;
  bool Note(Shared& shared, cudaError_t status, const char* call);

  // Waits until NCCL has finished the last request, or the group is over.
  Status AwaitSettled(const std::string& what, Deadline deadline);
  // Makes a request to NCCL, and waits until it is finished.
  Status Ask(const std::string& what, Deadline deadline, const std::function<ncclResult_t(Shared&)>& call);
  // Returns OK; or the first failure, after it has waited until the stream is idle.
  Status Failure();
  Status Check(Ticket ticket) const;
  // Whether a newer call has reused the ticket's event; then this call is done.
  bool IsOld(Ticket ticket) const { return ticket + kCallsMax <= submitted_; }
  cudaEvent_t EventOf(Ticket ticket) const { return done_[ticket % kCallsMax].get(); }
  std::string OthersText() const;

  kernels::CudaContext& context_;
  const std::shared_ptr<const kernels::Nccl> nccl_;
  const NcclMember member_;
  const CudaStream stream_;
  const CudaEvent ready_;
  std::array<CudaEvent, kCallsMax> done_;
  Ticket submitted_ = 0;
  int device_ = 0;
  Guarded<Shared> shared_;
  std::thread watch_;
};

}  // namespace capstan::train
