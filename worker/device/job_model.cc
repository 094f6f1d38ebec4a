#include "worker/device/job_model.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/number16.h"
#include "kernels/conv2d.h"
#include "worker/device/model_factory.h"
#include "worker/device/numeric_class.h"

namespace capstan::train {

namespace {

template <class T>
class ModelOf final : public JobModel {
 public:
  ModelOf(kernels::CpuContext& context, std::unique_ptr<nn::Model<T>> model)
      : context_(context), model_(std::move(model)) {}

  const std::vector<TensorSpec>& tensors() const override { return model_->tensors(); }
  std::size_t MeasureActivations(std::int64_t samples) override { return model_->MeasureActivations(samples); }
  std::size_t MeasureConvolutions(std::int64_t samples) const override {
    std::size_t most = 0;
    for (const kernels::Conv2dShape& shape : model_->Convolutions(samples)) {
      most = std::max(most, kernels::Conv2dWorkspaceBytes<T>(context_, shape));
    }
    return most;
  }
  void ReserveActivations(std::size_t bytes) override { model_->ReserveActivations(bytes); }
  Result<nn::LossSums> Train(const WeightsView& weights, float* gradients, const nn::Batch& batch,
                             const nn::StepKey& key, const nn::TrainOptions& options, const nn::Hooks& hooks) override {
    return model_->Train(Of(weights), gradients, batch, key, options, hooks);
  }
  Result<nn::LossSums> Evaluate(const WeightsView& weights, const nn::Batch& batch, const nn::Hooks& hooks) override {
    return model_->Evaluate(Of(weights), batch, hooks, weights.wide);
  }
  std::string NumericClass() const override { return train::NumericClass(kPrecision, CpuName(kPrecision)); }
  Result<std::uint64_t> NumericFingerprint() const override {
    return train::NumericFingerprint(
        kPrecision, [&](const nn::ModelShape& shape) { return CreateJobModel(context_, kPrecision, shape); });
  }

 private:
  static constexpr Precision kPrecision = std::is_same_v<T, Bf16>   ? Precision::kBf16
                                          : std::is_same_v<T, Half> ? Precision::kFp16
                                                                    : Precision::kFp32;
  static const T* Of(const WeightsView& weights) {
    if constexpr (std::is_same_v<T, float>) {
      return weights.wide;
    } else {
      static_assert(sizeof(T) == sizeof(*weights.narrow));
      return reinterpret_cast<const T*>(weights.narrow);
    }
  }

  kernels::CpuContext& context_;
  std::unique_ptr<nn::Model<T>> model_;
};

template <class T>
Result<std::unique_ptr<JobModel>> Create(kernels::CpuContext& context, const nn::ModelShape& shape) {
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<nn::Model<T>> model, nn::CreateModel<T>(context, shape));
  return std::unique_ptr<JobModel>(std::make_unique<ModelOf<T>>(context, std::move(model)));
}

}  // namespace

Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, Precision precision,
                                                 const nn::ModelShape& shape) {
  switch (precision) {
    case Precision::kFp32: return Create<float>(context, shape);
    case Precision::kBf16: return Create<Bf16>(context, shape);
    case Precision::kFp16: return Create<Half>(context, shape);
  }
  return Invalid("an unknown precision");
}

Result<std::unique_ptr<JobModel>> CreateJobModel(kernels::CpuContext& context, const JobConfig& config,
                                                 const SampleSpec& samples) {
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, ShapeOfModel(config, samples));
  return CreateJobModel(context, config.worker.precision, shape);
}

}  // namespace capstan::train
