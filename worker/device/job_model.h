// JobModel: a model in the precision that a job asks for, on weights as the client holds them.
//
// Kind:   owned by the one thread that calls it, as nn::Model.
// Fails:  CreateJobModel as CreateModel; Train and Evaluate where a device does.
// Why:    who trains need not know in which numbers: gradients are fp32 whatever the model stores. Those of a 16-bit
//         model may be rounded to its type already, as they are before anything is done with them (statistics never).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/job/device.h"
#include "common/config/job/forward.h"
#include "worker/collective/device_group.h"
#include "worker/collective/rendezvous.h"
#include "worker/data/dataset.h"
#include "worker/device/device_sum.h"
#include "worker/machine/local_device.h"
#include "worker/nn/model.h"

namespace capstan::train {

// All tensors one behind the other, as Client::weights() and Client::narrow_weights().
struct WeightsView {
  const float* wide = nullptr;
  const std::uint16_t* narrow = nullptr;  // null: fp32
  // Those of one round have the same number: what a device has of them already is not copied again. 0: always copied.
  std::uint64_t round = 0;
};

// What a model takes of a device's memory besides its activations, and what is free there.
struct DeviceMemory {
  std::string device;  // for people
  std::uint64_t weights = 0, gradients = 0;
  std::uint64_t work = 0;    // of products and kernels, at most
  std::uint64_t pinned = 0;  // of the host's memory, for what is on its way
  std::uint64_t free = 0;
};

class JobModel {
 public:
  virtual ~JobModel() = default;

  // As nn::Model's.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  virtual std::size_t MeasureActivations(std::int64_t samples) = 0;
  // What its convolutions take of the host's memory at most, for so many samples or fewer.
  virtual std::size_t MeasureConvolutions(std::int64_t /*samples*/) const { return 0; }
  virtual void ReserveActivations(std::size_t bytes) = 0;
  // Nothing where the model is in the host's memory.
  virtual std::optional<DeviceMemory> CountDeviceMemory() { return std::nullopt; }
  // Once, with the arrays that all calls of Train and Evaluate will be given, and which outlive this: a device may copy
  // from them faster if it knows. Where it cannot, all works as before, and what it says is for people to read.
  virtual std::string PinWeights(const WeightsView& /*weights*/) { return {}; }
  virtual Result<nn::LossSums> Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                                     const nn::StepKey& key, const nn::TrainOptions& options,
                                     const nn::Hooks& hooks) = 0;
  virtual Result<nn::LossSums> Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) = 0;

  // kUnsupported, and why, where groups of devices cannot be formed.
  virtual Result<GroupDevice> FindGroupDevice(const kernels::LibrarySearch& /*libraries*/) const { return OnTheHost(); }
  // Of gradients, on their way to `host`, which has a place for each number and outlives this; made by the first call,
  // of which later ones are to be repetitions. kUnsupported where the host's memory cannot be pinned.
  virtual Result<DeviceSum*> Sum(std::span<float> /*host*/, Encoding /*wire*/) { return OnTheHost(); }
  // Who reduces among workers what the device has, along with what this computes there; to be destroyed before this.
  virtual Result<std::unique_ptr<collective::DeviceGroup>> CreateGroup(
      const collective::DeviceGroupOptions& /*options*/, collective::Rendezvous* /*rendezvous*/,
      collective::Deadline /*deadline*/) {
    return OnTheHost();
  }
  // Who makes what adds up on the same device, along with what this computes there; both may outlive this.
  virtual DeviceAdderMaker AdderMaker() const {
    return [](const AdderOptions&) -> Result<std::unique_ptr<DeviceBucketAdder>> { return OnTheHost(); };
  }

  // What there is to say since it was last asked, for people: which library computes, where a machine may lack one.
  virtual std::string TakeNotice() { return {}; }

  // What its bits depend on besides its inputs: numeric_class.h.
  virtual std::string NumericClass() const = 0;
  virtual Result<std::uint64_t> NumericFingerprint() const = 0;

 private:
  static Status OnTheHost() {
    return Unsupported("the model is in the host's memory, where a group of devices has nothing to reduce");
  }
};

// Who makes models of a job's precision, where they are to compute.
using ModelMaker = std::function<Result<std::unique_ptr<JobModel>>(const nn::ModelShape&)>;

// On the CPU. `context` outlives it.
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, Precision precision,
                                                 const nn::ModelShape& shape);
Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, const JobConfig& config,
                                                 const SampleSpec& samples);

}  // namespace capstan::train
