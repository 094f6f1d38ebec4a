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
  if (part_ != nullptr) {
    if (!HaveAllSplit()) return ncclInProgress;
    FormPart();
  }
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
    if (call.stream == nullptr || needed == nullptr || call.root < 0 || call.root >= size_ ||
        (call.is_between_two() && call.root == rank_)) {
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

ncclResult_t Communicator::Split(int color, int key, ncclComm_t* part) {
  if (State() != ncclSuccess) return Refuse(ncclInvalidUsage, "a split while something is in progress");
  if (done_.load(std::memory_order_acquire) != enqueued_ || splits_ == kSplitsMax) {
    return Refuse(ncclInvalidUsage, "a split while calls are on their way");
  }
  SplitPlace& mine = (*segment_)[rank_].splits[static_cast<std::size_t>(splits_)];
  mine.color = color;
  mine.key = key;
  mine.is_posted = true;
  part_ = part;
  *part_ = nullptr;
  return ncclInProgress;
}

bool Communicator::HaveAllSplit() {
  for (int rank = 0; rank < size_; ++rank) {
    if (!(*segment_)[rank].splits[static_cast<std::size_t>(splits_)].is_posted) return false;
  }
  return true;
}

void Communicator::FormPart() {
  const auto number = static_cast<std::size_t>(splits_++);
  ncclComm_t* const part = std::exchange(part_, nullptr);
  const int color = (*segment_)[rank_].splits[number].color;
  if (color < 0) return;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < size_; ++rank) {
    const SplitPlace& split = (*segment_)[rank].splits[number];
    if (split.color == color) members.emplace_back(split.key, rank);
  }
  std::sort(members.begin(), members.end());
  const auto me = std::find_if(members.begin(), members.end(), [&](const auto& one) { return one.second == rank_; });
  const std::string name = name_ + "." + std::to_string(number) + "." + std::to_string(color);
  *part = new ncclComm{std::make_shared<Communicator>(name, static_cast<int>(me - members.begin()),
                                                      static_cast<int>(members.size()), launch_)};
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

// Whether all ranks make the same call. False also if the communicator was aborted.
bool Communicator::Agree(const Call& call) {
  Signature& mine = (*segment_)[rank_].call;
  const bool is_send = call.kind == Kind::kSend;  // the other's is a receive from this rank
  mine = {static_cast<int>(is_send ? Kind::kReceive : call.kind), call.type, is_send ? rank_ : call.root, call.count};
  if (!AwaitOthers(call)) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if ((call.is_between_two() && rank != call.root) || (*segment_)[rank].call == mine) continue;
    Break(ncclInvalidUsage,
          "rank " + std::to_string(rank) + " calls something else than rank " + std::to_string(rank_));
    return false;
  }
  return AwaitOthers(call);
}

template <class T>
bool Communicator::Exchange(const Call& call) {
  const bool is_scatter = call.kind == Kind::kReduceScatter;
  const std::size_t count = call.count * (is_scatter ? static_cast<std::size_t>(size_) : 1);
  const std::size_t chunk = kChunkBytes / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t some = std::min(chunk, count - begin);
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
  T* const receive = static_cast<T*>(call.receive);
  const auto from = [&](int rank) { return reinterpret_cast<const T*>((*segment_)[rank].chunk); };
  const auto sum = [&](std::size_t i) {
    float all = Widen(from(0)[i]);
    for (int rank = 1; rank < size_; ++rank) all += Widen(from(rank)[i]);
    return Narrow<T>(all);
  };
  if (call.kind == Kind::kAllGather) {
    for (int rank = 0; rank < size_; ++rank) {
      std::memcpy(receive + static_cast<std::size_t>(rank) * call.count + begin, from(rank), count * sizeof(T));
    }
    return;
  }
  if (call.kind == Kind::kSend) return;
  if (call.kind == Kind::kBroadcast || call.kind == Kind::kReceive) {
    std::memcpy(receive + begin, from(call.root), count * sizeof(T));
    return;
  }
  const std::size_t shift = call.kind == Kind::kReduceScatter ? static_cast<std::size_t>(rank_) * call.count : 0;
  if (call.kind == Kind::kReduce && call.root != rank_) return;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = begin + i;
    if (call.kind != Kind::kReduceScatter) receive[place] = sum(i);
    if (call.kind == Kind::kReduceScatter && place >= shift && place < shift + call.count)
      receive[place - shift] = sum(i);
  }
}

// Waits until the other ranks have reached this call. False if the communicator was aborted.
bool Communicator::AwaitOthers(const Call& call) {
  if (call.is_between_two()) {
    const std::uint64_t step = ++(*segment_)[rank_].steps_with[static_cast<std::size_t>(call.root)];
    const std::atomic<std::uint64_t>& its = (*segment_)[call.root].steps_with[static_cast<std::size_t>(rank_)];
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
