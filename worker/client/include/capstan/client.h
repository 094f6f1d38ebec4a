// capstan::Client: takes part in a job as a worker: it learns what to compute, gets the weights for it and returns
// gradients.
//
// Kind:   owned by the one thread that calls it; it runs its own thread for the network. Several clients may exist in
//         one process: there is no global state. A child of fork() cannot use its parent's client: calls that return a
//         Status return kInvalid there, and the destructor does nothing.
// Limits: up to 65536 tensors; gradients are fp32.
// Fails:  a call with a deadline ends by then, with kTimeout. While the client waits, on_notice reports every few
//         seconds which peers it waits for, and for how long; by default it prints to stderr. kInvalid: wrong arguments
//         or a wrong order of calls. kRefused: the job does not accept this worker, or has failed. kStale: the round is
//         over; ask for the next one.
// Why:    any program that can compute the gradient of numbered samples can be a worker. In mode sync, which worker
//         computes a slot, and how often, changes no bit of the result, as long as the gradient depends only on
//         (step, slot) and the weights.
//
// Use:
//   std::unique_ptr<capstan::Client> client = capstan::Client::Connect(options).value();  // coordinator, own name
//   client->Declare(description);                              // tensors, in the order of the forward pass
//   while (auto work = client->NextWork(deadline).value()) {   // nullopt: the job is done
//     for (std::uint32_t slot : work->slots) {                 // kStale: leave this loop, ask for work again
//       float* gradient = client->BeginSlot(slot, samples).value();
//       ... forward: WaitWeights(t, t, deadline) before reading the weights of tensor t
//       ... backward: GradientReady(t, t) when its gradient is final, GradientReadyFrom for the end of a large one
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

// A tensor's first weights. They follow from the job's seed and the tensor's name, except with kGiven: these come from
// one worker, which the job chooses, and are on disk before the first step.
enum class InitialWeights : std::uint8_t { kZeros = 0, kOnes = 1, kNormal = 2, kUniform = 3, kGiven = 4 };

struct TensorDeclaration {
  std::string name;                 // unique within the job
  std::vector<std::int64_t> shape;  // row-major
  InitialWeights initial = InitialWeights::kZeros;
  float scale = 0.0F;  // kNormal: standard deviation; kUniform: values in [-scale, scale)
  bool weight_decay = true;
  // 0: the job file has the tensor's hyper-parameters. Otherwise the number of the tensor's group, counted from 1:
  // SetHyperParameters gives the group's hyper-parameters. Either all tensors have a group or none has.
  std::uint32_t group = 0;
  // Whether the tensor is observed and not trained, such as batch-norm's running mean. A slot's "gradient" is the mean
  // that the slot observed over its samples, without the loss scale. A step adds to the stored value a tenth of its
  // difference to the mean over all samples.
  bool statistic = false;
};

struct WorkerDescription {
  std::vector<TensorDeclaration> tensors = {};  // the same list, in the same order, on every worker
  std::string numeric_class = {};               // what a gradient's bits depend on: build, machine kind, libraries
  std::uint64_t numeric_fingerprint = 0;        // hash of a fixed probe computed on this machine
  std::uint64_t data_fingerprint = 0;           // hash of the data that this worker reads
  // First weights: all tensors in the declared order, without gaps. Only those of kGiven are read; Declare copies them.
  // Every worker brings them, and the job takes one worker's. Null when no tensor is kGiven.
  const float* given = nullptr;
};

// Prints "capstan: " and the notice to stderr.
[[gnu::visibility("default")]] void PrintNotice(const std::string& notice);

struct ClientOptions {
  std::string coordinator;  // "host:port", "host:port#KEY" or "ipc:///path", as CAPSTAN_COORDINATOR has it
  std::string worker;       // 1 to 64 bytes of A-Z, a-z, 0-9 and ._-; a newer process with this name replaces this one
  std::chrono::milliseconds join_deadline{60'000};
  // Called from the client's own thread with a line for the user, such as which peers the client waits for, and for how
  // long. Never called before Connect or after the destructor. Empty: the lines are dropped.
  std::function<void(const std::string&)> on_notice = PrintNotice;
  // `rank` counts from 0; `ranks` is the job's number of slots. Only this worker computes slot `rank`, and the job
  // waits for it when it is lost. Either all workers of a job have a rank or none has.
  std::optional<std::uint32_t> rank = std::nullopt;
  std::uint32_t ranks = 0;
  // File with this process's key, as CAPSTAN_KEY_FILE names it; needed if the coordinator's address has a key. The file
  // has mode 0600.
  std::string key_file = {};
};

// How a program gets the weights of a round's version. kServers: the job's servers run the optimizer, and the round
// brings the weights. The other values are of a job with [optimizer] kind = "external".
enum class VersionSource : std::uint8_t {
  kServers = 0,
  kCurrent = 1,   // the program has this version: it needs no update
  kGradient = 2,  // the program makes it: one optimizer step with Client::mean_gradient()
  kSkipped = 3,   // it equals the version before, because that step's gradient was not finite or had no samples
  kWhole = 4,     // the program takes it from Client::weights() and Client::program_state()
};

// One round: compute the gradients of these slots of global batch `step`.
struct Work {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;      // rises with each recovery, for example when the job goes back to an earlier step
  std::vector<std::uint32_t> slots;  // ascending
  std::uint32_t slot_count = 0;      // the job's number of slots
  float loss_scale = 1.0F;           // compute the gradient of loss_scale * loss
  // sync: how many updates the weights have had: the steps before this one, less the skipped ones. Else 0.
  std::uint64_t updates = 0;
  // Norm of the whole averaged gradient of the step that made these weights, before clipping and without the loss
  // scale. Infinity: the gradient was not finite. 0: version 0, or mode async or bounded.
  double gradient_norm = 0.0;
  VersionSource source = VersionSource::kServers;  // if not kServers, TakeVersion comes before the first slot
  bool keep = false;  // external: the program must give its version with KeepVersion in this round, which has no slots
  bool at_end = false;  // external: the version is the job's last one
};

struct SlotResult {
  double loss_sum = 0.0;  // summed over `predictions`
  std::uint64_t predictions = 0;
  double validation_loss_sum = 0.0;  // over this slot's share of the validation set, if the step validates
  std::uint64_t validation_predictions = 0;
  std::uint64_t validation_correct = 0;
  // For each step and name, the job records the total sum of all slots divided by their total weight. Entries of a slot
  // with the same name are added up.
  std::vector<Metric> metrics = {};
};

class Collectives;  // <capstan/collectives.h>

class [[gnu::visibility("default")]] Client {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // A call with this deadline ends when the job ends, or when the job gives up (limits.stall in its job file).
  static constexpr Deadline kNoDeadline = Deadline::max();

  // Asks the coordinator for its job file. Fails when none has come within `join_deadline`.
  static Result<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  virtual ~Client() = default;  // leaves the job

  virtual const std::string& job_file() const = 0;  // canonical TOML
  // Declares the model's tensors and this worker's fingerprints. Call it once, before the first NextWork.
  virtual Status Declare(const WorkerDescription& description) = 0;

  // Gives up the current round, if there is one, and waits for the next. nullopt: the job is done. After the last step
  // the call waits until the last snapshot and the final weights are written.
  virtual Result<std::optional<Work>> NextWork(Deadline deadline) = 0;

  // Returns the weights: all tensors in the declared order, without gaps; null before Declare. A tensor may be read
  // once WaitWeights has succeeded for it, until the next call of NextWork.
  virtual const float* weights() const = 0;
  // Returns the weights as 16-bit numbers, where the job's precision is bf16 or fp16; else null. In that case weights()
  // holds only the statistics, which are fp32, and this array holds all other tensors.
  virtual const std::uint16_t* narrow_weights() const = 0;
  virtual std::uint64_t element_count() const = 0;
  // Waits until this round's weights of tensors [first, last] have arrived; `last` is included.
  virtual Status WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) = 0;

  // Sets how this round's gradients update the weights: one entry for each group of the tensors. All workers of a step
  // must give the same values, so compute them from the step only. Call it after Declare and before a gradient of the
  // round is final. Later rounds keep the values until the next call. If tensors have groups, this call must come
  // before the first gradient.
  virtual Status SetHyperParameters(const std::vector<HyperParameters>& groups) = 0;

  // Set how the gradient of a step is clipped: by the norm of the whole averaged gradient, as torch's clip_grad_norm_
  // does, or each element of it by its magnitude, as clip_grad_value_ does. The gradient's scale is that of the loss,
  // without the loss scale. SetClipNorm(0) is the job file's optimizer.clip_norm, SetClipValue(0) no limit. A limit
  // goes with each slot that ends after the call, also in later rounds. All slots of a step must bring the same one, or
  // the job stops and names two that differ. Only one of the two can be set, and SetClipValue only in a job without
  // optimizer.clip_norm. The servers redo a step whose gradient they clip. Mode sync; not negative and finite.
  virtual Status SetClipNorm(double max_norm) = 0;
  virtual Status SetClipValue(double max_value) = 0;

  // Gives the program's state after the round's step, such as a schedule's. The job stores it with each version of the
  // weights and in snapshots, and returns it to every worker with the weights, also after the job went back or was
  // resumed. It is sent with those slots of the round that end after this call. All slots of a step that bring a state
  // must bring the same one, so compute it from program_state() and the step only. If no slot brings one, the previous
  // version's state stays. A skipped step's state counts too. At most 64 KiB; mode sync.
  virtual Status SetProgramState(std::string_view state) = 0;
  // Returns the program's state of the version that this round computes with; empty: none was given yet. It may be read
  // once WaitWeights has succeeded for tensor 0, until the next call of NextWork.
  virtual const std::string& program_state() const = 0;

  // External jobs. Confirms that the program has this round's version, or makes it now of what the round brings
  // (Work::source). Call it once in each round without `keep`, before the first slot. A program that leaves it out in a
  // round without slots gets a whole version when it gets slots; the job waits for it then. kStale: the round is over;
  // do not change the weights. kCorrupt: the version is not one program's.
  virtual Status TakeVersion() = 0;
  // External jobs. Returns the mean gradient over all samples of the step before, without the loss scale, laid out as
  // weights(). Null unless Work::source is kGradient. Valid until the next call of NextWork.
  virtual const float* mean_gradient() const = 0;
  // External jobs. Gives this round's version, in a round with `keep`: the weights, laid out as weights(), and all else
  // that the program needs to go on from them, such as the optimizer's state. `state` has any form; all processes must
  // make the same bytes of the same state. Another process gets it as program_state() when Work::source is kWhole. At
  // most 65520 bytes and 4 bytes for each weight and for each of [optimizer] states. Copies both.
  virtual Status KeepVersion(const float* weights, std::string_view state) = 0;

  // Starts a slot of the round, in the order of Work::slots. The caller writes the slot's gradient to the returned
  // array, laid out as weights(): the mean over its `samples` samples, times the loss scale. Null when samples is 0,
  // because there is nothing to compute. A child process of a fork must not touch the array: servers may read it.
  virtual Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) = 0;
  // Declares the slot's gradient of tensors [first, last] final, so that finished blocks are sent at once. Optional;
  // name each tensor at most once in a slot. The second time is kInvalid, because the gradient may have been sent.
  virtual Status GradientReady(std::uint32_t first, std::uint32_t last) = 0;
  // Declares the slot's gradient of one tensor final from element `element` on, in row-major order. So a large tensor's
  // blocks are sent while the rest of its gradient is computed, from its end to its start. Optional; GradientReady or
  // EndSlot declares the rest, unless element 0 was named. Elements that are final must not be written any more. The
  // call is kInvalid if the tensor does not have the element, or if it is not below the one named before.
  virtual Status GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) = 0;
  // Declares all gradients of the slot final and reports its result.
  virtual Status EndSlot(std::uint32_t slot, const SlotResult& result) = 0;

  // Waits until every worker of the job has called it. In a job with ranks these are all ranks, otherwise all current
  // workers and at least cluster.min_workers. Call it after Declare, also within a round. kTimeout names the missing
  // workers; this worker still counts as waiting, and the next call continues the same barrier. kStale: the job is
  // done.
  virtual Status Barrier(Deadline deadline) = 0;
  // Calls that all members of a team of workers make together: all-reduce, all-gather, broadcast
  // (<capstan/collectives.h>).
  virtual Collectives& collectives() = 0;

  // Leaves the job. This client cannot take part in it again.
  virtual Status Leave(const std::string& reason) = 0;
  virtual ClientCounters counters() const = 0;
};

}  // namespace capstan
