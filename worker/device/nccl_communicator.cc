#include "worker/device/nccl_communicator.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "worker/collective/mesh_failure.h"

namespace capstan::train {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kPoll{50};
constexpr std::chrono::milliseconds kLookUp{20};
constexpr std::chrono::seconds kFinalizePatience{5};
constexpr int kNamesMax = 8;  // most ranks named in a message
constexpr char kNext[] = "; form the group again under the next generation, with the ranks that are left";

}  // namespace

NcclCommunicator::NcclCommunicator(kernels::CudaContext& context, std::shared_ptr<const kernels::Nccl> nccl,
                                   NcclMember member)
    : context_(context),
      nccl_(std::move(nccl)),
      member_(std::move(member)),
      stream_(MakeStream(context)),
      ready_(MakeEvent(context)) {
  for (CudaEvent& event : done_) event = MakeEvent(context, cudaEventBlockingSync);
  if (context.status().ok()) context.Note(cudaGetDevice(&device_), "asking for the device");
}

NcclCommunicator::~NcclCommunicator() {
  const bool is_done = shared_.With([this](Shared& shared) {
    TakeDone(shared, 0);
    return shared.comm != nullptr && shared.calls.empty();
  });
  const auto finalize = [this](Shared& shared) { return nccl_->CommFinalize(shared.comm); };
  const bool is_final = is_done && Ask("the last data", Clock::now() + kFinalizePatience, finalize).ok();
  shared_.Change([&](Shared& shared) {
    shared.closes = true;
    shared.calls.clear();
    if (shared.comm == nullptr) return;
    (void)(is_final ? nccl_->CommDestroy(shared.comm) : nccl_->CommAbort(shared.comm));
    shared.comm = nullptr;
  });
  if (watch_.joinable()) watch_.join();
  // Waits for enqueued work, because it uses members that are destroyed next.
  if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_.get());
}

Status NcclCommunicator::Form(const ncclUniqueId& id, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(context_.status());
  const auto begin = [&](Shared& shared) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return nccl_->CommInitRankConfig(&shared.comm, member_.size, id, member_.rank, &config);
  };
  CAPSTAN_RETURN_IF_ERROR(Ask("the forming of the group", deadline, begin));
  watch_ = std::thread([this] { Watch(); });
  return {};
}

Result<NcclCommunicator::Ticket> NcclCommunicator::Submit(std::string what, Deadline deadline, const Enqueue& enqueue,
                                                          const NcclCopy& copy) {
  const bool is_full = shared_.With([this](Shared& shared) {
    TakeDone(shared, 0);
    return shared.calls.size() == kCallsMax;
  });
  if (is_full) {
    return Status(Code::kBusy, what + " finds " + std::to_string(kCallsMax) +
                                   " calls in flight, the most that a group has; wait for one of them first");
  }
  const auto begin = [&](Shared& shared) {
    Note(shared, cudaEventRecord(ready_.get(), context_.stream()), "recording an event");
    Note(shared, cudaStreamWaitEvent(stream_.get(), ready_.get(), 0), "waiting for an event");
    if (copy.bytes > 0) {
      Note(shared, cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream_.get()), "copying");
    }
    return shared.failure.ok() ? enqueue(shared.comm) : ncclSuccess;
  };
  CAPSTAN_RETURN_IF_ERROR(Ask(what, deadline, begin));
  shared_.Change([&](Shared& shared) {
    if (!shared.failure.ok()) return;
    Note(shared, cudaEventRecord(EventOf(submitted_ + 1), stream_.get()), "recording an event");
    shared.calls.push_back({std::move(what), deadline});
  });
  return ++submitted_;
}

Status NcclCommunicator::OrderAfter(Ticket ticket, cudaStream_t stream) {
  CAPSTAN_RETURN_IF_ERROR(Check(ticket));
  CAPSTAN_RETURN_IF_ERROR(Failure());
  if (!IsOld(ticket)) {
    const cudaError_t status = cudaStreamWaitEvent(stream, EventOf(ticket), 0);
    shared_.With([&](Shared& shared) { Note(shared, status, "waiting for an event"); });
  }
  return Failure();
}

// The host waits for the event without a deadline: at the call's deadline the watch thread aborts the communicator, and
// then this wait ends.
Status NcclCommunicator::Wait(Ticket ticket) {
  CAPSTAN_RETURN_IF_ERROR(Check(ticket));
  if (IsOld(ticket)) return {};
  const cudaError_t status = cudaEventSynchronize(EventOf(ticket));
  const bool is_done = shared_.With([&](Shared& shared) {
    Note(shared, status, "waiting for a call of the group");
    TakeDone(shared, ticket);
    return shared.done >= ticket;
  });
  return is_done ? Status() : Failure();
}

Status NcclCommunicator::Wait(Ticket ticket, Deadline until) {
  CAPSTAN_RETURN_IF_ERROR(Check(ticket));
  for (;;) {
    const bool is_done = shared_.With([&](Shared& shared) {
      TakeDone(shared, 0);
      return shared.done >= ticket;
    });
    if (is_done) return {};
    CAPSTAN_RETURN_IF_ERROR(Failure());
    const Deadline now = Clock::now();
    if (now >= until) return {Code::kBusy, "call " + std::to_string(ticket) + " is not done yet; wait again"};
    shared_.AwaitUntil(std::min(until, now + kPoll), [](Shared& shared) { return !shared.failure.ok(); });
  }
}

void NcclCommunicator::Abort() {
  shared_.With([this](Shared& shared) {
    const auto me = collective::RankSet().set(static_cast<std::size_t>(member_.rank));
    TakeDone(shared, 0);
    End(shared, Unreachable("the group was aborted by " + collective::NamesOf(me, member_.name_of) + kNext));
  });
}

void NcclCommunicator::Watch() {
  pthread_setname_np(pthread_self(), "nccl watch");
  (void)cudaSetDevice(device_);
  for (;;) {
    shared_.AwaitUntil(Deadline::max(), [](Shared& shared) { return shared.closes || !shared.calls.empty(); });
    const Deadline next = shared_.With([this](Shared& shared) {
      Look(shared);
      Deadline first = Clock::now() + kLook;
      for (const Call& call : shared.calls) first = std::min(first, call.deadline);
      return first;
    });
    if (shared_.AwaitUntil(next, [](Shared& shared) { return shared.closes; })) return;
  }
}

void NcclCommunicator::TakeDone(Shared& shared, Ticket known) {
  while (!shared.calls.empty() && shared.failure.ok()) {
    if (shared.done >= known) {
      const cudaError_t status = cudaEventQuery(EventOf(shared.done + 1));
      if (status == cudaErrorNotReady) return;
      if (!Note(shared, status, "asking for a call of the group")) return;
    }
    shared.calls.pop_front();
    ++shared.done;
  }
}

void NcclCommunicator::Look(Shared& shared) {
  TakeDone(shared, 0);
  if (shared.calls.empty() || !shared.failure.ok()) return;
  const ncclResult_t result = StateOf(shared);
  if (result != ncclSuccess && result != ncclInProgress) {
    return End(shared, Trouble(shared, shared.calls.front().what, result));
  }
  if (Status over = member_.watch(); !over.ok()) return End(shared, std::move(over));
  const Deadline now = Clock::now();
  for (const Call& call : shared.calls) {
    if (call.deadline <= now) return End(shared, Missed(call.what));
  }
}

void NcclCommunicator::End(Shared& shared, Status failure) {
  if (!shared.failure.ok()) return;
  shared.failure = std::move(failure);
  if (shared.comm != nullptr) (void)nccl_->CommAbort(shared.comm);
  shared.comm = nullptr;
}

ncclResult_t NcclCommunicator::StateOf(const Shared& shared) const {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = nccl_->CommGetAsyncError(shared.comm, &result);
  return asked == ncclSuccess ? result : asked;
}

bool NcclCommunicator::Note(Shared& shared, cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    End(shared, Unreachable("the group's device, " + std::string(call) + ": " + cudaGetErrorString(status) + " (" +
                            cudaGetErrorName(status) + ")"));
  }
  return shared.failure.ok();
}

Status NcclCommunicator::Ask(const std::string& what, Deadline deadline,
                             const std::function<ncclResult_t(Shared&)>& call) {
  shared_.With([&](Shared& shared) {
    if (!shared.failure.ok()) return;
    const ncclResult_t result = call(shared);
    if (result != ncclSuccess && result != ncclInProgress) End(shared, Trouble(shared, what, result));
  });
  return AwaitSettled(what, deadline);
}

Status NcclCommunicator::AwaitSettled(const std::string& what, Deadline deadline) {
  for (Deadline look_up = Clock::now() + kLookUp;;) {
    const bool is_settled = shared_.With([&](Shared& shared) {
      if (!shared.failure.ok()) return true;
      const ncclResult_t result = StateOf(shared);
      if (result == ncclSuccess) return true;
      if (result == ncclInProgress && Clock::now() < deadline) return false;
      TakeDone(shared, 0);
      End(shared, result == ncclInProgress ? Missed(what) : Trouble(shared, what, result));
      return true;
    });
    if (is_settled) return Failure();
    if (Clock::now() >= look_up) {
      if (Status over = member_.look_up(); !over.ok()) {
        shared_.With([&](Shared& shared) { End(shared, std::move(over)); });
      }
      look_up = Clock::now() + kLookUp;
    }
    const auto is_over = [](Shared& shared) { return !shared.failure.ok(); };
    shared_.AwaitUntil(std::min(deadline, Clock::now() + kPoll), is_over);
  }
}

Status NcclCommunicator::Failure() {
  Status failure = shared_.With([](Shared& shared) { return shared.failure; });
  if (!failure.ok() && stream_ != nullptr) (void)cudaStreamSynchronize(stream_.get());
  return failure;
}

Status NcclCommunicator::Check(Ticket ticket) const {
  if (ticket >= 1 && ticket <= submitted_) return {};
  return Invalid("the group has no call " + std::to_string(ticket) + ", of the " + std::to_string(submitted_) +
                 " that were submitted; give what Submit has returned");
}

Status NcclCommunicator::Trouble(const Shared& shared, const std::string& what, ncclResult_t result) const {
  return Unreachable(what + ": NCCL says \"" + nccl_->GetErrorString(result) + "\" (" +
                     nccl_->GetLastError(shared.comm) + "), and not with which of " + OthersText() + kNext);
}

Status NcclCommunicator::Missed(const std::string& what) const {
  return Timeout(what + " was not done at its deadline, and was aborted; NCCL does not say for which of " +
                 OthersText() + " it waited: see whether they run and make the same calls" + kNext);
}

std::string NcclCommunicator::OthersText() const {
  if (member_.size > kNamesMax) return "the other " + std::to_string(member_.size - 1) + " ranks";
  collective::RankSet others;
  for (int rank = 0; rank < member_.size; ++rank) others.set(static_cast<std::size_t>(rank), rank != member_.rank);
  return others.any() ? collective::NamesOf(others, member_.name_of) : "no other ranks";
}

}  // namespace capstan::train
