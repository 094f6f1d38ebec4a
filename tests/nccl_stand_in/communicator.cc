#include "tests/nccl_stand_in/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common/data/number16.h"

namespace capstan::stand_in {
namespace {

constexpr int kLooks = 3;  // polls that starting a call takes
constexpr std::uint64_t kSlowCalls = 4;

}  // namespace

Fault Fault::Read() {
  Fault fault;
  const char* const text = std::getenv("CAPSTAN_NCCL_FAULT");
  std::istringstream words(text == nullptr ? "" : text);
  words >> fault.what >> fault.call;
  return fault;
}

Communicator::Communicator(std::string name, int rank, int size, LaunchHostFunc launch)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      launch_(launch),
      fault_(Fault::Read()),
      segment_(Segment::Open(name_)) {}

// ---- the host's side ----------------------------------------------------------------------------------------------

ncclResult_t Communicator::State() {
  if (const ncclResult_t error = error_.load(std::memory_order_acquire); error != ncclSuccess) return error;
  if (segment_ == nullptr) return Refuse(ncclSystemError, "there is no memory to share for " + name_);
  if (!is_formed_ && !HaveAllJoined()) return error_ == ncclSuccess ? ncclInProgress : error_.load();
  if (!waiting_.empty()) return --looks_left_ > 0 ? ncclInProgress : Launch();
  if (is_finalizing_) {
    if (done_.load(std::memory_order_acquire) < enqueued_) return ncclInProgress;
    is_final_ = true;
  }
  return ncclSuccess;
}

bool Communicator::HaveAllJoined() {
  if (fault_.what == "init") {
    (void)Refuse(ncclSystemError, "no way to form it, as CAPSTAN_NCCL_FAULT asks");
    return false;
  }
  if (fault_.what == "absent") return false;
  if (!has_joined_) (*segment_)[rank_].has_joined = true;
  has_joined_ = true;
  for (int rank = 0; rank < size_; ++rank) is_formed_ = (rank == 0 || is_formed_) && (*segment_)[rank].has_joined;
  if (is_formed_) segment_->TakeNameAway();
  return is_formed_;
}

ncclResult_t Communicator::Begin(std::vector<Call> calls) {
  if (const ncclResult_t state = State(); state != ncclSuccess) {
    return Refuse(ncclInvalidUsage, "a call while the state is " + std::to_string(state));
  }
  for (const Call& call : calls) {
    const void* const needed = call.kind == Kind::kReceive ? call.receive : call.send;
    if (call.stream == nullptr || needed == nullptr || call.other < 0 || call.other >= size_ ||
        (call.is_between_two() && call.other == rank_)) {
      return Refuse(ncclInvalidArgument, "a call with an argument that cannot be");
    }
    if (stream_ != nullptr && call.stream != stream_) return Refuse(ncclInvalidUsage, "a call on a second stream");
    stream_ = call.stream;
  }
  waiting_ = std::move(calls);
  if (begun_++ % kSlowCalls != 0) return Launch();
  looks_left_ = kLooks;
  return ncclInProgress;
}

ncclResult_t Communicator::Launch() {
  for (const Call& call : std::exchange(waiting_, {})) {
    auto* const enqueued = new Enqueued{shared_from_this(), call, ++enqueued_};
    const auto run = [](void* argument) {
      const std::unique_ptr<Enqueued> one(static_cast<Enqueued*>(argument));
      one->communicator->Run(one->call, one->number);
    };
    if (launch_(call.stream, run, enqueued) != cudaSuccess) return Refuse(ncclUnhandledCudaError, "launching a call");
  }
  return ncclSuccess;
}

ncclResult_t Communicator::Finalize() {
  if (State() != ncclSuccess) return Refuse(ncclInvalidUsage, "an end while something is in progress");
  is_finalizing_ = true;
  return ncclInProgress;
}

void Communicator::Abort() {
  is_aborted_ = true;
  if (segment_ == nullptr) return;
  segment_->TakeNameAway();
  segment_->Tell();
}

ncclResult_t Communicator::Refuse(ncclResult_t result, const std::string& why) {
  Break(result, why);
  return result;
}

// ---- on a stream --------------------------------------------------------------------------------------------------

void Communicator::Break(ncclResult_t result, const std::string& why) {
  if (error_ != ncclSuccess) return;
  last_error_ = why;
  error_.store(result, std::memory_order_release);
}

void Communicator::Run(const Call& call, std::uint64_t number) {
  if (is_aborted_) return;
  if (number != done_ + 1) Break(ncclInvalidUsage, "call " + std::to_string(number) + " ran before the one before it");
  if (number == fault_.call && fault_.what == "error") {
    Break(ncclRemoteError, "a peer is gone, as CAPSTAN_NCCL_FAULT asks");
  }
  if (error_ != ncclSuccess || (number == fault_.call && fault_.what == "hang") || !Agree(call)) return AwaitAbort();
  const bool is_done = call.type == ncclFloat32    ? Exchange<float>(call)
                       : call.type == ncclBfloat16 ? Exchange<Bf16>(call)
                                                   : Exchange<Half>(call);
  if (is_done) done_.fetch_add(1, std::memory_order_release);
}

// Whether all ranks make this call or, for a send or receive, whether the other rank makes its counterpart. If not,
// breaks the communicator. Returns false also if the communicator was aborted.
bool Communicator::Agree(const Call& call) {
  Signature& mine = (*segment_)[rank_].call;
  const bool is_send = call.kind == Kind::kSend;  // the other's is a receive from this rank
  mine = {static_cast<int>(is_send ? Kind::kReceive : call.kind), call.type, is_send ? rank_ : call.other, call.count};
  if (!AwaitOthers(call)) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if ((call.is_between_two() && rank != call.other) || (*segment_)[rank].call == mine) continue;
    Break(ncclInvalidUsage,
          "rank " + std::to_string(rank) + " calls something else than rank " + std::to_string(rank_));
    return false;
  }
  return AwaitOthers(call);
}

template <class T>
bool Communicator::Exchange(const Call& call) {
  const std::size_t chunk = kChunkBytes / sizeof(T);
  for (std::size_t begin = 0; begin < call.count; begin += chunk) {
    const std::size_t some = std::min(chunk, call.count - begin);
    if (call.kind != Kind::kReceive) {
      std::memcpy((*segment_)[rank_].chunk, static_cast<const T*>(call.send) + begin, some * sizeof(T));
    }
    if (!AwaitOthers(call)) return false;
    Produce<T>(call, begin, some);
    if (!AwaitOthers(call)) return false;
  }
  return true;
}

template <class T>
void Communicator::Produce(const Call& call, std::size_t begin, std::size_t count) {
  if (call.kind == Kind::kSend) return;
  T* const receive = static_cast<T*>(call.receive) + begin;
  const auto from = [&](int rank) { return reinterpret_cast<const T*>((*segment_)[rank].chunk); };
  if (call.kind == Kind::kReceive) {
    std::memcpy(receive, from(call.other), count * sizeof(T));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    float sum = Widen(from(0)[i]);
    for (int rank = 1; rank < size_; ++rank) sum += Widen(from(rank)[i]);
    receive[i] = Narrow<T>(sum);
  }
}

// Waits until the other ranks of the call have reached this point of it. Returns false if the communicator was aborted.
bool Communicator::AwaitOthers(const Call& call) {
  if (call.is_between_two()) {
    const std::uint64_t step = ++(*segment_)[rank_].steps_with[static_cast<std::size_t>(call.other)];
    const std::atomic<std::uint64_t>& its = (*segment_)[call.other].steps_with[static_cast<std::size_t>(rank_)];
    return AwaitUntil([&] { return its >= step; });
  }
  (*segment_)[rank_].steps = ++steps_;
  return AwaitUntil([this] {
    for (int rank = 0; rank < size_; ++rank) {
      if ((*segment_)[rank].steps < steps_) return false;
    }
    return true;
  });
}

template <class HaveCome>
bool Communicator::AwaitUntil(const HaveCome& have_come) {
  segment_->Tell();
  for (;;) {
    const std::uint32_t known = segment_->news();
    if (is_aborted_) return false;
    if (have_come()) return true;
    segment_->AwaitNews(known);
  }
}

void Communicator::AwaitAbort() {
  for (;;) {
    const std::uint32_t known = segment_->news();
    if (is_aborted_) return;
    segment_->AwaitNews(known);
  }
}

}  // namespace capstan::stand_in
