// Communicator: one rank of an NCCL communicator, over shared memory, on the emulated device's streams.
//
// Kind:   shared by the host threads that call NCCL and the stream that runs the calls; one host call at a time.
// Limits: kRanksMax ranks; sums of fp32, bf16 and fp16.
// Fails:  as NCCL. It also fails where NCCL would silently go wrong: ranks that call different functions, a call
//         while another one is being started, a second stream, and calls that run in another order than they were
//         made. And it fails where NCCL would not: the calls in a group run one after the other, so sends and
//         receives that wait for each other in a cycle fail between two ranks, and hang between more. No rank can
//         send to itself.
// Why:    as on a device, a call that has begun on a stream ends when all its ranks have reached it, or by an abort. A
//         quarter of the calls start only when the host asks for the communicator's state, as NCCL may do.
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/nccl_stand_in/segment.h"

namespace capstan::stand_in {

using LaunchHostFunc = cudaError_t (*)(cudaStream_t, cudaHostFn_t, void*);

enum class Kind : int { kAllReduce, kSend, kReceive };

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;  // as in NCCL's call
  ncclDataType_t type;
  int other;  // for kSend and kReceive: the other rank
  cudaStream_t stream;

  bool is_between_two() const { return kind != Kind::kAllReduce; }
};

// The fault that CAPSTAN_NCCL_FAULT asks for when the communicator is created: "init" reports an error in forming,
// "absent" never joins, "hang N" never completes call N (counted from 1), "error N" reports an error in it.
struct Fault {
  std::string what;
  std::uint64_t call = 0;
  static Fault Read();
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(std::string name, int rank, int size, LaunchHostFunc launch);

  ncclResult_t Begin(std::vector<Call> calls);
  ncclResult_t Finalize();
  void Abort();
  // Returns the state, as ncclCommGetAsyncError does. Forming, starting a call and finalizing advance in this call.
  ncclResult_t State();
  const char* last_error() const { return last_error_.c_str(); }
  bool is_final() const { return is_final_; }

 private:
  struct Enqueued {
    std::shared_ptr<Communicator> communicator;
    Call call;
    std::uint64_t number;
  };

  bool HaveAllJoined();
  ncclResult_t Launch();
  ncclResult_t Refuse(ncclResult_t result, const std::string& why);

  // Runs a call on a stream. Agree and the functions below return false if the communicator was aborted.
  void Run(const Call& call, std::uint64_t number);
  bool Agree(const Call& call);
  template <class T>
  bool Exchange(const Call& call);
  template <class T>
  void Produce(const Call& call, std::size_t begin, std::size_t count);
  bool AwaitOthers(const Call& call);
  template <class HaveCome>
  bool AwaitUntil(const HaveCome& have_come);
  void AwaitAbort();
  void Break(ncclResult_t result, const std::string& why);

  const std::string name_;
  const int rank_, size_;
  const LaunchHostFunc launch_;
  const Fault fault_;
  const std::unique_ptr<Segment> segment_;

  // Used by the host.
  bool has_joined_ = false, is_formed_ = false, is_finalizing_ = false, is_final_ = false;
  std::vector<Call> waiting_;
  int looks_left_ = 0;
  std::uint64_t begun_ = 0, enqueued_ = 0;
  cudaStream_t stream_ = nullptr;

  // Used by the stream and, except steps_, by the host.
  std::uint64_t steps_ = 0;
  std::string last_error_;  // written before `error_`
  std::atomic<ncclResult_t> error_{ncclSuccess};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> is_aborted_{false};
};

}  // namespace capstan::stand_in

// NOLINTBEGIN: the name is NCCL's.
struct ncclComm {
  std::shared_ptr<capstan::stand_in::Communicator> communicator;
};
// NOLINTEND
