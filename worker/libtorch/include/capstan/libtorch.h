// capstan::libtorch: makes a training program of libtorch's (torch::nn::Module, torch::optim) a worker of a job.
//
// Kind:   Connection and Trainer are owned by the one thread that calls them. Model, optimizer and scheduler stay the
//         program's, and must outlive the Trainer.
// Limits: mode sync; float32 parameters on the CPU; torch::optim's SGD, Adam, AdamW, Adagrad and RMSprop.
// Fails:  kInvalid, kUnsupported: the program does something that the job cannot follow, or libtorch threw an
//         exception; the message names what, where and which value, and the line to write instead. kRefused: the job
//         does not accept this worker, or has failed. kUnreachable, kTimeout: as in <capstan/client.h>. No call throws.
// Why:    the servers hold the weights and run the optimizer, so a process may be killed, and another one started in
//         its place, without changing a bit. The loop, the model, the loss and the data stay the program's.
//
// Use:
//   auto connection = capstan::libtorch::Connect().value();  // CAPSTAN_COORDINATOR has the address
//   auto trainer = connection->Prepare(*model, optimizer, {.samples = 1500}).value();
//   while (auto slot = trainer->NextSlot().value()) {        // nullopt: the job is done
//     auto rows = torch::tensor(slot->rows);                 // the samples of this slot
//     auto loss = torch::mse_loss(model->forward(x.index_select(0, rows)), y.index_select(0, rows));
//     Status status = trainer->Backward(loss);               // in place of loss.backward()
//     status = trainer->Step();                              // in place of optimizer.step()
//   }
#pragma once

#include <capstan/client.h>
#include <capstan/metric.h>
#include <capstan/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// libtorch's classes, so that this header compiles without libtorch's own, which take half a minute.
namespace at {
class Tensor;
}
namespace torch {
namespace nn {
class Module;
}
namespace optim {
class LRScheduler;
class Optimizer;
}  // namespace optim
}  // namespace torch

namespace capstan::libtorch {

struct ConnectOptions {
  std::string coordinator = {};  // "host:port", "host:port#KEY" or "ipc:///path"; empty: CAPSTAN_COORDINATOR has it
  // A newer process with this name replaces this one. Empty: CAPSTAN_WORKER has it, or else the name is "rank-N" with
  // a rank, and made of the host's name and the process's number without one.
  std::string worker = {};
  // `rank` counts from 0; `ranks` is the job's number of slots. With a rank only this process computes slot `rank`, and
  // the job waits for it when it is lost. nullopt: the rank that mpirun, srun or torchrun gives, if it started more
  // than one process; on_notice reports that.
  std::optional<std::uint32_t> rank = std::nullopt;
  std::uint32_t ranks = 0;
  std::chrono::milliseconds join_deadline{60'000};
  std::function<void(const std::string&)> on_notice = PrintNotice;  // as ClientOptions::on_notice
  std::string key_file = {};                                        // empty: CAPSTAN_KEY_FILE
};

enum class Order : std::uint8_t { kShuffled = 0, kSequential = 1 };

// What becomes of a slot in which a parameter has no gradient because the loss does not depend on it. kZero: the
// gradient is 0, and momentum and weight decay go on.
enum class Unused : std::uint8_t { kRefused = 0, kZero = 1 };

struct PrepareOptions {
  // Number of samples in the data set. The trainer then chooses each slot's samples (Slot::rows): an epoch is all
  // samples, cut into global batches, and the last batch of an epoch may be smaller. 0: the program chooses the samples
  // of a slot, by its step and index only.
  std::uint64_t samples = 0;
  Order order = Order::kShuffled;  // the shuffled order follows from the job's seed and the epoch
  // A hash of the data that the program reads. A process with another one is refused. 0: not compared.
  std::uint64_t data_fingerprint = 0;
  // The optimizer's numbers (learning rates and others) change by at most one of these two; without both they stay.
  // `schedule` is called before each step, and sets the numbers in the optimizer's groups, from the step only.
  // `scheduler` is a new one of libtorch's, such as StepLR: the trainer calls its step() after each `scheduler_every`
  // steps of the job. Both follow the job, also in a process that is started again.
  std::function<void(std::uint64_t step)> schedule = {};
  ::torch::optim::LRScheduler* scheduler = nullptr;
  std::uint64_t scheduler_every = 1;
  Unused unused = Unused::kRefused;
};

// A part of one step's global batch, which this process computes.
struct Slot {
  std::uint64_t step = 0;
  std::uint32_t index = 0;         // among the slots of the step, from 0
  std::uint64_t epoch = 0;         // with PrepareOptions::samples; else 0
  std::uint64_t samples = 0;       // the slot's share of job.global_batch; at least 1
  std::vector<std::int64_t> rows;  // with PrepareOptions::samples: their numbers in the data set; else empty
};

// How a loss comes from its samples.
enum class Reduction : std::uint8_t { kMean = 0, kSum = 1 };

struct BackwardOptions {
  std::uint64_t samples = 0;  // samples that the loss covers; 0: all of the slot that no call has covered
  // kMean: the loss is the mean over its samples. kSum: it is their sum, and the step's gradient is that of the sum
  // over the global batch. nullopt: kMean, and a loss that was made by sum() is refused if the step has other parts.
  std::optional<Reduction> reduction = std::nullopt;
};

class [[gnu::visibility("default")]] Trainer {
 public:
  virtual ~Trainer() = default;  // leaves the job; on_notice reports it if the job is not done

  // Returns the next slot to compute; nullopt: the job is done. Waits for the step's weights and puts them into the
  // model. When the job is done, the model has its last weights and the optimizer its last state; kUnreachable if they
  // could not be read. When the job goes back to an earlier step, slots of that step come again. Seeds libtorch's
  // generator of the CPU from job.seed, step and index.
  virtual Result<std::optional<Slot>> NextSlot() = 0;

  // Computes the gradient of `loss`, a tensor with one element, and adds it to the slot's. The slot's gradient is the
  // mean over its samples, and the step's is the mean over the samples of all its slots. Several calls accumulate:
  // each covers `samples` samples, and together they cover the slot's. Until Step() the parameters' grad() has the
  // slot's gradient, times the job's loss scale where there is one; it may be read and not changed.
  virtual Status Backward(const at::Tensor& loss, const BackwardOptions& options = {}) = 0;

  // Ends the slot: sends its gradient, and clears grad(). The servers then run the optimizer; the model has the new
  // weights when NextSlot has returned.
  virtual Status Step() = 0;

  // Passes over the slot, before its first Backward(): it adds no samples to the step.
  virtual Status Skip() = 0;

  // Clip the mean gradient of the whole step: by its norm, as torch::nn::utils::clip_grad_norm_ does, or each element
  // by its magnitude, as clip_grad_value_ does. Called between NextSlot and Step, in every slot of the step with the
  // same limit, which is positive and finite.
  virtual Status ClipNorm(double max_norm) = 0;
  virtual Status ClipValue(double max_value) = 0;

  // Logs sum / weight over all slots of the step under this name; between NextSlot and Step.
  virtual Status Log(Metric metric) = 0;

  virtual bool done() const = 0;           // the job's last step is committed
  virtual std::uint64_t step() const = 0;  // the current step, which equals the number of committed steps
  // Norm of the whole mean gradient that made the model's weights, before clipping. 0: none has made them. Infinity: it
  // was not finite.
  virtual double gradient_norm() const = 0;
  // This process's number, from 0: its rank, or the index that capstan launch gave it, which a restarted process keeps.
  // Without both, its lowest slot, which changes when slots move; nullopt before the first slot.
  virtual std::optional<std::uint32_t> rank() const = 0;
  // Whether this is process number 0, which writes files.
  virtual bool is_main() const = 0;

  // The client below, for a barrier or collective calls. Rounds, slots and weights are the trainer's.
  virtual Client& client() = 0;
};

class [[gnu::visibility("default")]] Connection {
 public:
  virtual ~Connection() = default;
  virtual const std::string& job_file() const = 0;  // canonical TOML

  // Declares the model's trained parameters to the job, in the optimizer's groups. Their values are the first weights;
  // of several processes the job takes the values of one. BatchNorm's running statistics are the job's too; other
  // buffers must not change. The job file names the optimizer, and has what decides which arrays its state has
  // (amsgrad, centered, rmsprop's momentum); all numbers are those of the optimizer's groups. Works once.
  virtual Result<std::unique_ptr<Trainer>> Prepare(::torch::nn::Module & model, ::torch::optim::Optimizer & optimizer,
                                                   const PrepareOptions& options = {}) = 0;
};

// Asks the coordinator for its job. Fails when none has come within `join_deadline`. Reads the environment variables
// that ConnectOptions names, and CAPSTAN_INDEX, by which capstan launch numbers its processes.
[[gnu::visibility("default")]] Result<std::unique_ptr<Connection>> Connect(const ConnectOptions& options = {});

}  // namespace capstan::libtorch
