// DeviceModel: a job's model on a device: weights go there as they arrive, gradients come back as they are made.
//
// Kind:   owned by the one thread that calls it, as JobModel. Three streams: one computes, one copies there, one back.
// Limits: the device holds the weights in the model's type, fp32 gradients, the activations and one micro-batch; where
//         the model's type has 16 bits, the gradients in it too, and the statistics, which it cannot hold, in fp32; and
//         the sum of gradients, where one is asked for.
// Fails:  Train and Evaluate with the first failure of CUDA, by which the device is lost to this process.
// Why:    the host waits for the network, for gradients it is about to send and for the loss, and for nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/cuda_handles.h"
#include "worker/device/flat_sum.h"
#include "worker/device/gradient_return.h"
#include "worker/device/numeric_class.h"

namespace capstan::train {

// The batch's arrays on the device.
class DeviceBatch {
 public:
  explicit DeviceBatch(kernels::CudaContext& context) : context_(context) {}

  // Enqueues the copy. The batch before this one is to be done.
  nn::Batch Put(const nn::Batch& batch);

 private:
  static constexpr std::size_t kAlignment = 256;

  kernels::CudaContext& context_;
  kernels::CudaContext::Memory device_;
  PinnedMemory host_;
  std::size_t bytes_ = 0;
};

template <class T>
class DeviceModel final : public JobModel {
 public:
  // `stream`: what `context` enqueues on. `name`: the device's and its libraries', for the numeric class. `notice`: for
  // people. `make`: another model on the same device.
  DeviceModel(CudaStream stream, std::unique_ptr<kernels::CudaContext> context, std::unique_ptr<nn::Model<T>> model,
              std::string name, std::string notice, ModelMaker make);
  ~DeviceModel() override;

  const std::vector<TensorSpec>& tensors() const override { return model_->tensors(); }
  std::size_t MeasureActivations(std::int64_t samples) override { return model_->MeasureActivations(samples); }
  void ReserveActivations(std::size_t bytes) override;
  std::optional<DeviceMemory> CountDeviceMemory() override;
  std::string PinWeights(const WeightsView& weights) override;
  Result<nn::LossSums> Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                             const nn::StepKey& key, const nn::TrainOptions& options, const nn::Hooks& hooks) override;
  Result<nn::LossSums> Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) override;
  Result<GroupDevice> FindGroupDevice(const kernels::LibrarySearch& libraries) const override;
  Result<DeviceSum*> Sum(std::span<float> host, Encoding wire) override;
  Result<std::unique_ptr<collective::DeviceGroup>> CreateGroup(const collective::DeviceGroupOptions& options,
                                                               collective::Rendezvous* rendezvous,
                                                               collective::Deadline deadline) override;
  DeviceAdderMaker AdderMaker() const override;
  std::string TakeNotice() override;
  std::string NumericClass() const override;
  Result<std::uint64_t> NumericFingerprint() const override;

 private:
  // Takes the memory for weights and gradients, once.
  void Reserve();
  // Enqueues the copies of tensors [first, last], which the stream that computes then waits for.
  void PutWeights(const WeightsView& weights, TensorIndex first, TensorIndex last);
  nn::Hooks WithWeights(const WeightsView& weights, const nn::Hooks& hooks);
  // The gradients of tensors [first, last] are made: enqueues that they are rounded as they would travel, in
  // `narrow_gradients_`, statistics left out.
  void NarrowGradients(TensorIndex first, TensorIndex last);
  // Enqueues that they are added to the sum.
  void AddGradients(TensorIndex first, TensorIndex last);
  // Enqueues their way to `gradients`, then `arrived`.
  void SendGradients(float* gradients, TensorIndex first, TensorIndex last, std::function<void()> arrived);
  // Calls visit(begin, end, whether they travel as fp32) for tensors of [first, last] that travel alike.
  template <class Visit>
  void ForAlike(TensorIndex first, TensorIndex last, const Visit& visit) const;
  bool IsStatistic(TensorIndex tensor) const { return model_->tensors()[tensor].kind == TensorKind::kStatistic; }
  Result<nn::LossSums> Loss();

  const CudaStream stream_;
  const std::unique_ptr<kernels::CudaContext> context_;
  const CudaStream upward_;
  const CudaEvent put_;
  const std::unique_ptr<nn::Model<T>> model_;
  const std::string name_;
  std::string notice_;
  const ModelMaker make_;
  PinnedRange pinned_weights_;         // the host's; null: copies go by way of the driver's own memory
  std::vector<std::int64_t> offsets_;  // of each tensor, and the end
  kernels::CudaContext::Memory weights_, gradients_, statistics_;
  kernels::CudaContext::Memory narrow_gradients_;  // as they leave, rounded as the wire would
  DeviceBatch batch_;
  GradientReturn return_;
  std::unique_ptr<FlatSum> sum_;       // null until it is asked for
  std::vector<std::uint64_t> put_in_;  // the round whose weights of a tensor the device has
};

}  // namespace capstan::train
