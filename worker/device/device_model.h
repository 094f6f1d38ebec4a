// DeviceModel: a job's model on a device. Weights are copied there as they arrive, gradients are copied back as they
// are computed.
//
// Kind:   owned by the one thread that calls it, as JobModel. Three streams: one computes, one copies to the device,
//         one copies back.
// Limits: device memory for the weights in the model's type, fp32 gradients, the activations, one micro-batch and the
//         workspace of kernels. A 16-bit model also has its gradients in 16 bits and, if it has running statistics,
//         4 bytes per parameter for these. DeviceSum takes more, if it is used.
// Fails:  Train and Evaluate with CUDA's first failure, after which this process cannot use the device any more.
// Why:    the host enqueues work and waits only for the network, for gradients that it is about to send, and for the
//         loss. So the device need not wait for the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/device/cuda_device.h"
#include "worker/device/cuda_handles.h"
#include "worker/device/gradient_return.h"
#include "worker/device/numeric_class.h"

namespace capstan::train {

// The current batch's arrays on the device.
class DeviceBatch {
 public:
  explicit DeviceBatch(kernels::CudaContext& context) : context_(context) {}

  // Enqueues the copy of a batch, and returns the batch's arrays on the device. The previous batch must be done.
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
  // `stream`: the stream of `context`. `name`: names of the device and libraries, for the numeric class. `notice`: the
  // first text that TakeNotice returns. `make`: makes another model on the same device.
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
  Result<ModelDevice*> device() override { return static_cast<ModelDevice*>(&device_); }
  std::string TakeNotice() override;
  std::string NumericClass() const override;
  Result<std::uint64_t> NumericFingerprint() const override;

 private:
  // Allocates memory for weights and gradients, on the first call.
  void Reserve();
  // Enqueues the copies of tensors [first, last], and makes the compute stream wait for them.
  void PutWeights(const WeightsView& weights, TensorIndex first, TensorIndex last);
  nn::Hooks WithWeights(const WeightsView& weights, const nn::Hooks& hooks);
  // Enqueues rounding the gradients of tensors [first, last], except statistics, to the 16-bit wire type in
  // `narrow_gradients_`.
  void NarrowGradients(TensorIndex first, TensorIndex last);
  // Enqueues adding the gradients of tensors [first, last] to `sum`.
  void AddGradients(FlatSum* sum, TensorIndex first, TensorIndex last);
  // Enqueues copying the gradients of tensors [first, last] to `gradients`; calls `arrived` afterwards.
  void SendGradients(float* gradients, TensorIndex first, TensorIndex last, std::function<void()> arrived);
  // Calls visit(begin, end, is_fp32) for each run of tensors in [first, last] with the same wire encoding.
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
  PinnedRange pinned_weights_;         // the host's weights; null: copies go through the driver's staging memory
  std::vector<std::int64_t> offsets_;  // first element of each tensor, and the end
  kernels::CudaContext::Memory weights_, gradients_, statistics_;
  kernels::CudaContext::Memory narrow_gradients_;  // gradients rounded to the 16-bit type in which they are sent
  DeviceBatch batch_;
  GradientReturn return_;
  CudaDevice device_;
  std::vector<std::uint64_t> put_in_;  // by tensor: the number of the round whose weights the device has
};

}  // namespace capstan::train
