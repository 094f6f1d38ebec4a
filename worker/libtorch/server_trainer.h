// ServerTrainer: the Trainer of a job whose servers run the optimizer.
//
// Kind:   owned by the program's thread.
// Why:    a slot begins with the round's weights in the model and ends with its gradient in the client's memory. When a
//         round is over early (kStale), the rest of its slots are void; the program only notices that they come again.
#pragma once

#include <capstan/libtorch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/sampler.h"
#include "worker/libtorch/environment.h"
#include "worker/libtorch/last_version.h"
#include "worker/libtorch/model_values.h"
#include "worker/libtorch/rates.h"

namespace capstan::libtorch {

// What a trainer needs of the job file.
struct JobFacts {
  std::uint64_t steps = 0, seed = 0;
  std::uint32_t global_batch = 0, slots = 0;
};

class ServerTrainer final : public Trainer {
 public:
  struct Parts {
    std::unique_ptr<Client> client;
    std::unique_ptr<ModelValues> values;
    ::torch::optim::Optimizer* optimizer = nullptr;  // the program's
    Identity identity;
    PrepareOptions options;
    JobFacts job;
    Rates rates;
    LastVersion last;
  };
  explicit ServerTrainer(Parts parts) : parts_(std::move(parts)) {}
  ~ServerTrainer() override;

  Result<std::optional<Slot>> NextSlot() override;
  Status Backward(const at::Tensor& loss, const BackwardOptions& options) override;
  Status Step() override;
  Status Skip() override;
  Status ClipNorm(double max_norm) override;
  Status ClipValue(double max_value) override;
  Status Log(Metric metric) override;
  bool done() const override { return done_; }
  std::uint64_t step() const override { return done_ ? parts_.job.steps : work_.step; }
  double gradient_norm() const override { return gradient_norm_; }
  std::optional<std::uint32_t> rank() const override;
  bool is_main() const override { return rank() == 0U; }
  Client& client() override { return *parts_.client; }

 private:
  struct Clip {
    double norm = 0.0, value = 0.0;  // 0: none
    bool operator==(const Clip&) const = default;
  };
  // The computation of the slot that NextSlot has returned last.
  struct Open {
    Slot slot;
    float* gradient = nullptr;   // null: no Backward() yet
    std::uint64_t computed = 0;  // samples
    double loss_sum = 0.0;
    std::vector<Metric> metrics;
    Clip clip;
    bool is_void = false;  // the round is over
  };

  Status NextRound();
  Result<std::optional<Work>> WaitForWork();
  Status BeginRound();
  Status Finish();
  Slot MakeSlot(std::uint32_t index) const;
  std::uint64_t StepSamples() const;
  Status EndEmptySlot(std::uint32_t index);
  Status NeedSlot(const std::string& call) const;
  Result<double> WeightOf(const at::Tensor& loss, const BackwardOptions& options, std::uint64_t samples) const;
  Status Compute(const at::Tensor& loss, double factor);
  Status SetClip();
  // Makes the current slot void if the status says that its round is over.
  Status UnlessStale(Status status);

  Parts parts_;
  Work work_;             // the round
  std::size_t next_ = 0;  // the round's next slot
  std::optional<Open> open_;
  Clip told_;                                  // what the client has
  std::optional<std::uint64_t> clipped_step_;  // the newest step of which a slot has ended
  double gradient_norm_ = 0.0;
  std::optional<std::uint32_t> lowest_slot_;
  bool done_ = false;
  bool has_sums_ = false, has_skipped_ = false;  // losses were sums; slots were passed over
};

}  // namespace capstan::libtorch
