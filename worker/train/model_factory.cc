#include "worker/train/model_factory.h"

namespace capstan::train {

template <class T>
Result<std::unique_ptr<nn::Model<T>>> CreateModel(kernels::CpuContext& context, const JobConfig& config,
                                                  const SampleSpec& samples) {
  const ModelSection& model = config.model;
  if (!model.built_in()) {
    return Invalid(
        "model.kind = \"client\": the model is its workers' own, and known once one of them has declared it; "
        "start your own program as a worker, not capstan-worker");
  }
  const bool takes_tokens = model.kind == ModelKind::kGpt;
  if (takes_tokens != (samples.form == SampleForm::kTokens)) {
    return Invalid(takes_tokens ? "model.kind = \"gpt\" learns from tokens, and this data has rows of numbers; "
                                  "use data.kind = \"text\" or model.kind = \"mlp\""
                                : "model.kind = \"mlp\" learns from rows of numbers, and this data has tokens; "
                                  "use data.kind = \"csv\" or \"idx\", or model.kind = \"gpt\"");
  }
  if (takes_tokens) {
    return nn::CreateGpt<T>(context, {.vocabulary = samples.vocabulary,
                                      .context = samples.context,
                                      .layers = model.layers,
                                      .heads = model.heads,
                                      .width = model.width,
                                      .dropout = model.dropout,
                                      .recompute = config.worker.recompute});
  }
  nn::MlpShape shape{.features = samples.features, .classes = samples.classes, .dropout = model.dropout};
  shape.hidden.assign(model.hidden.begin(), model.hidden.end());
  return nn::CreateMlp<T>(context, shape);
}

template Result<std::unique_ptr<nn::Model<float>>> CreateModel<float>(kernels::CpuContext&, const JobConfig&,
                                                                      const SampleSpec&);
template Result<std::unique_ptr<nn::Model<double>>> CreateModel<double>(kernels::CpuContext&, const JobConfig&,
                                                                        const SampleSpec&);
template Result<std::unique_ptr<nn::Model<Bf16>>> CreateModel<Bf16>(kernels::CpuContext&, const JobConfig&,
                                                                    const SampleSpec&);
template Result<std::unique_ptr<nn::Model<Half>>> CreateModel<Half>(kernels::CpuContext&, const JobConfig&,
                                                                    const SampleSpec&);

std::vector<TensorSpec> JobTensors(const JobConfig& config, std::vector<TensorSpec> model_tensors) {
  for (TensorSpec& tensor : model_tensors) {
    tensor.decay = tensor.decay && DecayApplies(config.optimizer, tensor.name);
  }
  return model_tensors;
}

}  // namespace capstan::train
