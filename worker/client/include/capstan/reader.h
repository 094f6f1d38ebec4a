// capstan::Reader: follows a job without taking part in it: its progress, its newest weights, its optimizer's state.
//
// Kind:   owned by the one thread that calls it. It starts no thread except libzmq's, which holds the connections;
//         between two calls nothing happens. A child of fork() cannot use its parent's reader: calls that return a
//         Status return kInvalid there, and the destructor does nothing.
// Limits: as Client's. In mode sync, if reading the model takes longer than a step, no version can be read before the
//         job is done. For a reader whose process is stopped, each shard keeps up to 16 blocks of 1 MiB in memory, for
//         at most 40 s.
// Fails:  a call ends by its deadline with kTimeout, whose message names the peer that it waited for. kRefused: the job
//         has failed. kUnreachable: the coordinator was silent for the job's limits.stall.
// Why:    a program that evaluates a job or fetches its final weights must not delay or change it. Only the job's end
//         waits for readers, so that they can read the last version, for at most limits.lease.
//
// Use:
//   std::unique_ptr<capstan::Reader> reader = capstan::Reader::Connect(options).value();
//   capstan::PullOptions wish;
//   while (auto version = reader->Pull(wish, deadline).value()) {   // nullopt: the job is done, nothing is newer
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
  std::string coordinator;  // "host:port", "host:port#KEY" or "ipc:///path", as CAPSTAN_COORDINATOR has it
  std::string name;         // shown in logs, of the same bytes as a worker's; several readers may share one
  std::chrono::milliseconds join_deadline{60'000};
  std::string key_file = {};  // file with this process's key, of mode 0600, if the coordinator's address has a key
};

struct ReaderTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major
};

enum class JobState : std::uint8_t { kGathering = 0, kRunning = 1, kDone = 2, kFailed = 3 };

struct JobProgress {
  JobState state = JobState::kGathering;
  std::uint64_t step = 0;        // the current step
  std::uint64_t generation = 0;  // rises with each recovery, for example when the job goes back to an earlier step
  std::uint32_t slot_count = 0;
  std::string message;  // why the job failed
};

struct PullOptions {
  std::optional<std::uint64_t> newer_than;  // a step; nullopt: any version
  bool optimizer_state = false;
};

// sync, allreduce: exactly the weights that `step` computes with, all of one version. async, bounded: each block is
// consistent in itself and contains at least `step` pushes of every slot.
struct PulledVersion {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  bool done = false;  // this is the job's last version
  // The number of updates that these weights have had, without skipped steps. async, bounded: that of the block with
  // the fewest.
  std::uint64_t updates = 0;
  double gradient_norm = 0.0;  // as in Work; of a version that was read while its step was not yet committed: 0
};

class [[gnu::visibility("default")]] Reader {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  static constexpr Deadline kNoDeadline = Deadline::max();  // the call ends when the job does

  // Asks the coordinator for its job file. Fails when none has come within `join_deadline`.
  static Result<std::unique_ptr<Reader>> Connect(const ReaderOptions& options);
  virtual ~Reader() = default;  // from then on the job's end does not wait for this reader

  virtual const std::string& job_file() const = 0;  // canonical TOML
  virtual Result<JobProgress> progress(Deadline deadline) = 0;

  // Waits for a version and fetches it. nullopt: the job is done and has no newer version. Once the last version was
  // pulled, a call for a newer one returns nullopt without asking the servers, which end with the job. After kTimeout
  // the same call continues with the blocks that have arrived.
  virtual Result<std::optional<PulledVersion>> Pull(const PullOptions& options, Deadline deadline) = 0;

  // Returns the job's tensors, in the order in which workers declare them. Empty before the first Pull has succeeded.
  virtual const std::vector<ReaderTensor>& tensors() const = 0;
  virtual std::uint64_t element_count() const = 0;
  // Returns the weights of the last Pull: all tensors in the declared order, without gaps; valid until the next Pull.
  // Null when the last Pull gave no version.
  virtual const float* weights() const = 0;
  // state_names returns the names of the optimizer's state arrays, as in PyTorch: "momentum_buffer"; "exp_avg",
  // "exp_avg_sq"; "sum". state returns an array, laid out as the weights; null when the last Pull did not ask for
  // state.
  virtual const std::vector<std::string>& state_names() const = 0;
  virtual const float* state(std::size_t index) const = 0;
};

}  // namespace capstan
