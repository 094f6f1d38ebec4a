// JobModel: a model in the precision that a job asks for, on weights as the client holds them.
//
// Kind:   owned by the one thread that calls it, as nn::Model.
// Fails:  CreateJobModel as CreateModel.
// Why:    who trains need not know in which numbers: gradients are fp32 whatever the model stores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/job_config.h"
#include "worker/nn/model.h"
#include "worker/train/data/dataset.h"

namespace capstan::train {

// All tensors one behind the other, as Client::weights() and Client::narrow_weights().
struct WeightsView {
  const float* wide = nullptr;
  const std::uint16_t* narrow = nullptr;  // null: fp32
};

class JobModel {
 public:
  virtual ~JobModel() = default;

  // As nn::Model's.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  virtual std::size_t MeasureActivations(std::int64_t samples) = 0;
  virtual void ReserveActivations(std::size_t bytes) = 0;
  virtual nn::LossSums Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                             const nn::StepKey& key, const nn::TrainOptions& options, const nn::Hooks& hooks) = 0;
  virtual nn::LossSums Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) = 0;

  // What its bits depend on besides its inputs: numeric_class.h.
  virtual std::string NumericClass() const = 0;
  virtual std::uint64_t NumericFingerprint(kernels::CpuContext& context) const = 0;
};

Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, const JobConfig& config,
                                                 const SampleSpec& samples);

}  // namespace capstan::train
