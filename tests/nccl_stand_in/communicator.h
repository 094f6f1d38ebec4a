// Communicator: one rank of what NCCL calls a communicator, over shared memory, on the emulated device's streams.
//
// Kind:   shared by the host's thread that calls and the streams that compute; the host's calls come one at a time.
// Limits: kRanksMax ranks, kSplitsMax splits; sums of fp32, bf16 and fp16.
// Fails:  as NCCL, and where NCCL would go wrong without a word: ranks that call something else, calls while another one
//         is being begun, a second stream, calls that run in another order than they were made in. And where NCCL would
//         not: the calls of one group of calls run one after the other, so sends and receives that wait for each other
//         in a cycle end with an error between two ranks and never between more; no rank sends to itself.
// Why:    a call that has begun on a stream ends when all ranks have come to it or it is aborted, as on a device. A
//         quarter of the calls are begun only while somebody asks how the communicator is, as NCCL may do.
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/nccl_stand_in/segment.h"

namespace capstan::stand_in {

using LaunchHostFunc = cudaError_t (*)(cudaStream_t, cudaHostFn_t, void*);

enum class Kind : int { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kSend, kReceive };

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  std::size_t count;  // as NCCL has it
  ncclDataType_t type;
  int root;  // the other rank, of kSend and kReceive
  cudaStream_t stream;

  bool is_between_two() const { return kind == Kind::kSend || kind == Kind::kReceive; }
};

// CAPSTAN_NCCL_FAULT when the communicator is made: "init" reports an error in forming, "absent" never comes, "hang N"
// never completes call N (counted from 1), "error N" reports an error in it.
struct Fault {
  std::string what;
  std::uint64_t call = 0;
  static Fault Read();
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(std::string name, int rank, int size, LaunchHostFunc launch);

  ncclResult_t Begin(std::vector<Call> calls);
  ncclResult_t Split(int color, int key, ncclComm_t* part);
  ncclResult_t Finalize();
  void Abort();
  // What is in progress goes on in here.
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
  bool HaveAllSplit();
  void FormPart();
  ncclResult_t Launch();
  ncclResult_t Refuse(ncclResult_t result, const std::string& why);

  // On a stream. False: it was aborted.
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

  // The host's.
  bool has_joined_ = false, is_formed_ = false, is_finalizing_ = false, is_final_ = false;
  std::vector<Call> waiting_;
  int looks_left_ = 0;
  std::uint64_t begun_ = 0, enqueued_ = 0;
  cudaStream_t stream_ = nullptr;
  int splits_ = 0;
  ncclComm_t* part_ = nullptr;

  // The stream's.
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
