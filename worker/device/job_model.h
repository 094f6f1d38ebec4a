// JobModel: a model in the job's precision, on weights as the client holds them.
//
// Kind:   owned by the one thread that calls it, as nn::Model.
// Fails:  CreateJobModel as CreateModel; Train and Evaluate when a device fails.
// Why:    the trainer need not know the model's type: gradients are always fp32. The numbers of a 16-bit model may be
//         rounded to its type already, since the client rounds them before any use (except statistics).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job/device.h"
#include "common/config/job/forward.h"
#include "worker/data/dataset.h"
#include "worker/device/model_device.h"
#include "worker/nn/model.h"

namespace capstan::train {

// All tensors in the declared order, without gaps: what Client::weights() and Client::narrow_weights() return.
struct WeightsView {
  const float* wide = nullptr;
  const std::uint16_t* narrow = nullptr;  // null: fp32
  // Number of the round. A device copies a tensor only once for each number. 0: it copies every time.
  std::uint64_t round = 0;
};

// The memory of a device that a model takes besides its activations, and the device's free memory.
struct DeviceMemory {
  std::string device;  // its name, for messages
  std::uint64_t weights = 0, gradients = 0;
  std::uint64_t work = 0;    // workspace of products and kernels, at most
  std::uint64_t pinned = 0;  // host memory for transfers
  std::uint64_t free = 0;
};

class JobModel {
 public:
  virtual ~JobModel() = default;

  // These are as in nn::Model.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  virtual std::size_t MeasureActivations(std::int64_t samples) = 0;
  // Returns the host memory that one of its convolutions takes at most, for a batch of so many samples.
  virtual std::size_t MeasureConvolutions(std::int64_t /*samples*/) const { return 0; }
  virtual void ReserveActivations(std::size_t bytes) = 0;
  // Counts the device memory that the model takes; nullopt: the model is in the host's memory.
  virtual std::optional<DeviceMemory> CountDeviceMemory() { return std::nullopt; }
  // Pins the host's weights, so that a device copies faster from them. Call it once, with the arrays that all calls of
  // Train and Evaluate will get; the arrays outlive this model. If they cannot be pinned, everything still works, and
  // the returned text gives the reason.
  virtual std::string PinWeights(const WeightsView& /*weights*/) { return {}; }
  virtual Result<nn::LossSums> Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                                     const nn::StepKey& key, const nn::TrainOptions& options,
                                     const nn::Hooks& hooks) = 0;
  virtual Result<nn::LossSums> Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) = 0;

  // Returns the device on which the model's gradients can be added up. kUnsupported: the model is in the host's memory.
  virtual Result<ModelDevice*> device() {
    return Unsupported("the model is in the host's memory, where a group of devices has nothing to reduce");
  }

  // Returns a notice for the user that was not returned before, or an empty text. A notice says which optional library
  // computes, or what that library could not compute.
  virtual std::string TakeNotice() { return {}; }

  // NumericClass and NumericFingerprint describe what the bits of the results depend on besides the inputs: see
  // numeric_class.h.
  virtual std::string NumericClass() const = 0;
  virtual Result<std::uint64_t> NumericFingerprint() const = 0;
};

// A function that makes models in the job's precision on the job's device.
using ModelMaker = std::function<Result<std::unique_ptr<JobModel>>(const nn::ModelShape&)>;

// Create a model on the CPU. `context` must outlive the model.
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, Precision precision,
                                                 const nn::ModelShape& shape);
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, const JobConfig& config,
                                                 const SampleSpec& samples);

}  // namespace capstan::train
