// capstan::Client: takes part in a job as a worker: learns what to compute, gets the weights for it,
// gives gradients back.
//
// Kind:   owned by the one thread that calls it; it runs one thread of its own for the network. Several clients
//         may live in one process: there is no global state. A child of fork() has none: every call there is kInvalid,
//         and the destructor does nothing.
// Limits: up to 65536 tensors of fp32.
// Fails:  every call ends by its deadline with kTimeout; whom the client waits for, and since when, is said every few
//         seconds through on_notice, which prints it unless it is set. kInvalid: calls in an order or with numbers that
//         cannot be. kRefused: the job does not want this worker, or has failed. kStale: the round is over, ask for the
//         next one.
// Why:    any program that can compute the gradient of numbered samples can be a worker. Who computes a slot, and how
//         often, changes no bit of the result, as long as it depends on (step, slot) and the weights alone.
//
// Use:
//   std::unique_ptr<capstan::Client> client = capstan::Client::Connect(options).value();  // coordinator, own name
//   client->Declare(description);                              // tensors, in the order of the forward pass
//   while (auto work = client->NextWork(deadline).value()) {   // nothing: the job is done
//     for (std::uint32_t slot : work->slots) {                 // kStale: leave this loop, ask for work again
//       float* gradient = client->BeginSlot(slot, samples).value();
//       ... forward: WaitWeights(t, t, deadline) before reading the weights of tensor t
//       ... backward: GradientReady(t, t) when its gradient is final
//       client->EndSlot(slot, result);
//     }
//   }
#pragma once

#include <capstan/client_counters.h>
#include <capstan/hyper_parameters.h>
#include <capstan/metric.h>
#include <capstan/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

// How a tensor's first weights follow from the job's seed and its name; kGiven: they come from a worker, the one that
// the job chooses, and are on disk before the first step.
enum class InitialWeights : std::uint8_t { kZeros = 0, kOnes = 1, kNormal = 2, kUniform = 3, kGiven = 4 };

struct TensorDeclaration {
  std::string name;                 // unique within the job
  std::vector<std::int64_t> shape;  // row-major
  InitialWeights initial = InitialWeights::kZeros;
  float scale = 0.0F;  // kNormal: standard deviation; kUniform: values in [-scale, scale)
  bool weight_decay = true;
  // 0: its hyper-parameters are the job file's. Otherwise they are of this group, from 1 on: SetHyperParameters. Either
  // all tensors have a group or none has.
  std::uint32_t group = 0;
  // Not trained but observed, as batch-norm's running mean: a slot's "gradient" is the mean that it saw over its
  // samples, unscaled; a step moves the kept value by a tenth of the way to the mean over all samples.
  bool statistic = false;
};

struct WorkerDescription {
  std::vector<TensorDeclaration> tensors = {};  // the same list, in the same order, on every worker
  std::string numeric_class = {};               // what the bits of a gradient depend on: build, machine kind, libraries
  std::uint64_t numeric_fingerprint = 0;        // of a fixed probe computed on this machine
  std::uint64_t data_fingerprint = 0;           // of the data this worker reads
  // All tensors one behind the other, as declared; only those of kGiven are read, and copied by Declare. Every worker
  // brings them: the job takes one worker's.
  const float* given = nullptr;
};

// To stderr, after "capstan: ".
[[gnu::visibility("default")]] void PrintNotice(const std::string& notice);

struct ClientOptions {
  std::string coordinator;  // "host:port"
  std::string worker;       // this worker's name; a newer process of that name takes over
  std::chrono::milliseconds join_deadline{60'000};
  // Lines for people, from the client's thread: whom it waits for, and since when. Never called before Connect or after
  // the destructor. Empty: nobody hears them.
  std::function<void(const std::string&)> on_notice = PrintNotice;
  // This worker is number `rank`, from 0, of `ranks`, as many as the job has slots: it alone computes slot `rank`, and
  // the job waits for it when it is lost. Either every worker of a job has a rank, or none has.
  std::optional<std::uint32_t> rank = std::nullopt;
  std::uint32_t ranks = 0;
};

// One round: compute the gradients of these slots of global batch `step`.
struct Work {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;      // one history of the job; rises when it went back to an earlier step
  std::vector<std::uint32_t> slots;  // ascending
  std::uint32_t slot_count = 0;      // of the job
  float loss_scale = 1.0F;           // gradients are to be of loss_scale * loss
  // sync: that the weights have had, which is the steps before less those that were skipped. Else 0.
  std::uint64_t updates = 0;
};

struct SlotResult {
  double loss_sum = 0.0;  // over `predictions`
  std::uint64_t predictions = 0;
  double validation_loss_sum = 0.0;  // of this slot's share of the validation set, where the step validates
  std::uint64_t validation_predictions = 0;
  std::uint64_t validation_correct = 0;
  // Shown per step as sum / weight over all slots; a name that comes twice is added up.
  std::vector<Metric> metrics = {};
};

class [[gnu::visibility("default")]] Client {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // The call ends when the job does, or when the job gives up (its limits.stall).
  static constexpr Deadline kNoDeadline = Deadline::max();

  // Asks the coordinator for the job until `join_deadline`.
  static Result<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  virtual ~Client() = default;  // leaves the job

  virtual const std::string& job_file() const = 0;  // canonical TOML
  // Says what this worker brings. Once, before the first NextWork.
  virtual Status Declare(const WorkerDescription& description) = 0;

  // Gives up whatever round was under way and waits for the next one. Nothing when the job is done: after the last step
  // the call waits until the last snapshot and the final weights are written.
  virtual Result<std::optional<Work>> NextWork(Deadline deadline) = 0;

  // All tensors one behind the other, as declared; null before. Valid to read for tensors that WaitWeights has answered
  // for, until the next call of NextWork.
  virtual const float* weights() const = 0;
  // The same as numbers of 16 bits, where the job's precision is bf16 or fp16; else null. Statistics, which come as
  // fp32, are then in weights(), and all else is here.
  virtual const std::uint16_t* narrow_weights() const = 0;
  virtual std::uint64_t element_count() const = 0;
  // Until the weights of tensors [first, last] of this round are there.
  virtual Status WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) = 0;

  // How this round's gradients update the weights: one entry for each group of the tensors, the same from every worker
  // of a step, a function of the step alone. After Declare, and before a gradient of the round is final. Rounds to come
  // keep them until the next call. Where tensors have a group there are no gradients without them.
  virtual Status SetHyperParameters(const std::vector<HyperParameters>& groups) = 0;

  // What a program keeps from step to step (a schedule's state, say): bytes that the job keeps with each version of the
  // weights, on disk with its snapshots, and hands to every worker with them; also when the job went back, or was
  // resumed. `state` is as of the end of the round's step; it goes with the slots of the round that end after this
  // call. The slots of a step that have one are to have the same: made from program_state() and the step alone. Where
  // none has one, what the version before had stays. A step that is skipped keeps its own. At most 64 KiB; mode sync.
  virtual Status SetProgramState(std::string_view state) = 0;
  // Of the version that this round computes with; empty: none was given yet. Valid to read when WaitWeights has
  // answered for tensor 0, until the next call of NextWork.
  virtual const std::string& program_state() const = 0;

  // Starts a slot of the round, in the order of Work::slots. Returns where its gradient goes (laid out as weights()):
  // the mean over its `samples` samples, times the loss scale. Null when samples is 0: there is nothing to compute.
  virtual Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) = 0;
  // The gradient of tensors [first, last] of the slot is final: what can leave now leaves.
  virtual Status GradientReady(std::uint32_t first, std::uint32_t last) = 0;
  // All gradients of the slot are final.
  virtual Status EndSlot(std::uint32_t slot, const SlotResult& result) = 0;

  // Until every worker of the job has called it: of a job with ranks all of them, else all that are in it, and at least
  // cluster.min_workers. After Declare, also in a round. kTimeout names who is missing; this worker still counts as
  // waiting, and the next call goes on with the same barrier. kStale: the job is done.
  virtual Status Barrier(Deadline deadline) = 0;

  // Leaves the job in good order. Afterwards there is no more work.
  virtual Status Leave(const std::string& reason) = 0;
  virtual ClientCounters counters() const = 0;
};

}  // namespace capstan
