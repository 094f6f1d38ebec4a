// NcclCommunicator: one communicator of NCCL, which ends at deadlines, and the calls that are on their way through it.
//
// Kind:   owned by one thread; Abort alone may come from another one. A thread inside looks after what is on its way,
//         every kLook while there is something. All calls to NCCL are made alone with what they share.
// Limits: kCallsMax calls on their way.
// Fails:  the first failure is for good: the communicator is aborted with it. Who is told of it finds the stream idle.
// Why:    work on a device cannot be waited for with a deadline. The thread aborts the communicator when one passes,
//         which ends the work, and so whoever waits for it in whatever way, goes on.
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

// On the device; of no bytes there is none.
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
  std::function<Status()> watch = [] { return Status(); };  // by the thread inside
};

class NcclCommunicator {
 public:
  using Deadline = collective::Deadline;
  using Ticket = collective::DeviceGroup::Ticket;
  static constexpr std::size_t kCallsMax = collective::DeviceGroup::kCallsMax;
  static constexpr std::chrono::milliseconds kLook{10};

  NcclCommunicator(kernels::CudaContext& context, std::shared_ptr<const kernels::Nccl> nccl, NcclMember member);
  // Lets the last calls' data leave where all is done and well; else aborts.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclMember& member() const { return member_; }
  cudaStream_t stream() const { return stream_.get(); }

  // One of these is first, and the only one to be called when it has failed.
  Status Form(const ncclUniqueId& id, Deadline deadline);
  Status Adopt(ncclComm_t comm, Deadline deadline);
  // Part of this one; null for ranks without a color. Nothing is on its way.
  Result<ncclComm_t> Split(int color, int key, Deadline deadline);

  // `enqueue` puts the call on this stream, after what the context's stream was given by now, and after `copy`. `what`:
  // for people.
  using Enqueue = std::function<ncclResult_t(ncclComm_t)>;
  Result<Ticket> Submit(std::string what, Deadline deadline, const Enqueue& enqueue, const NcclCopy& copy = {});
  Status OrderAfter(Ticket ticket, cudaStream_t stream);
  Status Wait(Ticket ticket);
  Status Wait(Ticket ticket, Deadline until);
  Ticket submitted() const { return submitted_; }
  void Abort();

 private:
  struct Call {
    std::string what;
    Deadline deadline;
  };
  struct Shared {
    ncclComm_t comm = nullptr;  // null: not begun, or over
    std::deque<Call> calls;     // on their way, in their order
    Ticket done = 0;            // well; the first of `calls` is the next one
    Status failure;
    bool closes = false;
  };

  void Watch();
  // These are alone with `shared`. Those up to `known` are known to be done.
  void TakeDone(Shared& shared, Ticket known);
  void Look(Shared& shared);
  void End(Shared& shared, Status failure);
  ncclResult_t StateOf(const Shared& shared) const;
  Status Trouble(const Shared& shared, const std::string& what, ncclResult_t result) const;
  Status Missed(const std::string& what) const;
  bool Note(Shared& shared, cudaError_t status, const char* call);

  // Until NCCL has done what it was asked for last.
  Status AwaitSettled(const std::string& what, Deadline deadline);
  // Asks it for something, and waits until it has done it.
  Status Ask(const std::string& what, Deadline deadline, const std::function<ncclResult_t(Shared&)>& call);
  // OK, or the first failure when nothing is left on the stream.
  Status Failure();
  Status Check(Ticket ticket) const;
  // So long ago that its event is another call's: it is done.
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
