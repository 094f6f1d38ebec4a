// JobModel: a model in the job's precision, on weights as the client holds them.
//
// Kind:   owned by the one thread that calls it, as nn::Model.
// Fails:  CreateJobModel as CreateModel; Train and Evaluate when a device fails.
// Why:    the trainer need not know the model's type: gradients are always fp32. Gradients of a 16-bit model may be
//         rounded to its type already, since they are rounded before any use (statistics never are).
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

// All tensors in the declared order, without gaps, as Client::weights() and Client::narrow_weights().
struct WeightsView {
  const float* wide = nullptr;
  const std::uint16_t* narrow = nullptr;  // null: fp32
  // Weights of one round have the same number, and a device does not copy them again. 0: always copy.
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

  // As in nn::Model.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  virtual std::size_t MeasureActivations(std::int64_t samples) = 0;
  // Returns the most host memory that its convolutions take, for so many samples or fewer.
  virtual std::size_t MeasureConvolutions(std::int64_t /*samples*/) const { return 0; }
  virtual void ReserveActivations(std::size_t bytes) = 0;
  // Counts the device memory that the model takes; nullopt: the model is in the host's memory.
  virtual std::optional<DeviceMemory> CountDeviceMemory() { return std::nullopt; }
  // Call it once, with the arrays that all calls of Train and Evaluate will get, and which outlive this model. A device
  // can copy from pinned arrays faster. If they cannot be pinned, everything still works, and the returned text says
  // why.
  virtual std::string PinWeights(const WeightsView& /*weights*/) { return {}; }
  virtual Result<nn::LossSums> Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                                     const nn::StepKey& key, const nn::TrainOptions& options,
                                     const nn::Hooks& hooks) = 0;
  virtual Result<nn::LossSums> Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) = 0;

  // Returns the device on which the model's gradients can be added up. kUnsupported: the model is in the host's memory.
  virtual Result<ModelDevice*> device() {
    return Unsupported("the model is in the host's memory, where a group of devices has nothing to reduce");
  }

  // Returns a new notice for the log, or an empty text. A notice says which optional library computes, or what that
  // library could not compute.
  virtual std::string TakeNotice() { return {}; }

  // Names all that the results' bits depend on besides the inputs: see numeric_class.h.
  virtual std::string NumericClass() const = 0;
  virtual Result<std::uint64_t> NumericFingerprint() const = 0;
};

// Makes models in the job's precision on the job's device.
using ModelMaker = std::function<Result<std::unique_ptr<JobModel>>(const nn::ModelShape&)>;

// Creates a model on the CPU. `context` outlives it.
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, Precision precision,
                                                 const nn::ModelShape& shape);
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, const JobConfig& config,
                                                 const SampleSpec& samples);

}  // namespace capstan::train
