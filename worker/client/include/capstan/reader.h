// capstan::Reader: follows a job without taking part in it: how far it is, its newest weights, its optimizer's state.
//
// Kind:   owned by the one thread that calls it; it runs no thread of its own: between two calls nothing happens, and
//         only libzmq's thread holds the connections. A child of fork() has none: every call there is kInvalid, and the
//         destructor does nothing.
// Limits: as a Client's. A version of a model that takes longer to read than the job's steps last is not had before the
//         job is done. A reader that stands still pins 16 blocks of 1 MiB on each shard, for at most 40 s.
// Fails:  every call ends by its deadline with kTimeout, which says whom it waited for. kRefused: the job has failed.
//         kUnreachable: the coordinator was silent for the job's limits.stall.
// Why:    evaluators and programs that want the final weights must not be able to hold up or change a job. Only its end
//         waits for readers, for at most limits.lease: until then they can read the last version.
//
// Use:
//   std::unique_ptr<capstan::Reader> reader = capstan::Reader::Connect(options).value();
//   capstan::PullOptions wish;
//   while (auto version = reader->Pull(wish, deadline).value()) {   // nothing: the job is done, there is nothing newer
//     ... reader->weights(), laid out as reader->tensors() says ...
//     wish.newer_than = version->step;
//   }
#pragma once

#include <capstan/status.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan {

struct ReaderOptions {
  std::string coordinator;  // "host:port"
  std::string name;         // for people; several readers may have one
  std::chrono::milliseconds join_deadline{60'000};
};

struct ReaderTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major
};

enum class JobState : std::uint8_t { kGathering = 0, kRunning = 1, kDone = 2, kFailed = 3 };

struct JobProgress {
  JobState state = JobState::kGathering;
  std::uint64_t step = 0;        // under way
  std::uint64_t generation = 0;  // one history of the job; rises when it went back to an earlier step
  std::uint32_t slot_count = 0;
  std::string message;  // why it failed
};

struct PullOptions {
  std::optional<std::uint64_t> newer_than;  // a step; nothing: any version
  bool optimizer_state = false;
};

// sync: exactly the weights that `step` computes with, all of one version. async, bounded: each block of tensors whole,
// with at least `step` pushes of every slot.
struct PulledVersion {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  bool done = false;          // the job's last
  std::uint64_t updates = 0;  // that the weights have had: skipped steps are none; async: the block with the fewest
};

class [[gnu::visibility("default")]] Reader {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  static constexpr Deadline kNoDeadline = Deadline::max();  // the call ends when the job does

  // Asks the coordinator for the job until `join_deadline`.
  static Result<std::unique_ptr<Reader>> Connect(const ReaderOptions& options);
  virtual ~Reader() = default;  // the job's end does not wait for it any more

  virtual const std::string& job_file() const = 0;  // canonical TOML
  virtual Result<JobProgress> progress(Deadline deadline) = 0;

  // Waits for a version and fetches it. Nothing: the job is done and has no newer one; once the last one was pulled, the
  // reader knows so by itself, for servers end with the job. After kTimeout the same call goes on with what has come so
  // far.
  virtual Result<std::optional<PulledVersion>> Pull(const PullOptions& options, Deadline deadline) = 0;

  // The job's, in the order of its workers' declaration. Empty before the first Pull has succeeded.
  virtual const std::vector<ReaderTensor>& tensors() const = 0;
  virtual std::uint64_t element_count() const = 0;
  // Of the last Pull, all tensors one behind the other; valid until the next one. Null when it gave no version.
  virtual const float* weights() const = 0;
  // What the optimizer keeps, named as PyTorch does: "momentum_buffer"; "exp_avg", "exp_avg_sq"; "sum". Laid out as the
  // weights; null when the last Pull did not ask for it.
  virtual const std::vector<std::string>& state_names() const = 0;
  virtual const float* state(std::size_t index) const = 0;
};

}  // namespace capstan
