#include "worker/device/model_factory.h"

#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"

namespace capstan::train {

namespace {

std::vector<std::int64_t> Widths(const std::vector<std::uint32_t>& widths) { return {widths.begin(), widths.end()}; }

Status CheckData(const ModelSection& model, const SampleSpec& samples) {
  const bool has_tokens = samples.form == SampleForm::kTokens;
  if (model.reads_tokens() && !has_tokens) {
    return Invalid(
        "model.kind = \"gpt\" learns from tokens, and this data has rows of numbers; use data.kind = \"text\" or "
        "model.kind = \"mlp\"");
  }
  if (!model.reads_tokens() && has_tokens) {
    return Invalid(
        "this model learns from rows of numbers, and this data has tokens; use data.kind = \"csv\" or \"idx\", or "
        "model.kind = \"gpt\"");
  }
  if (model.reads_images() && samples.image == ImageShape{}) {
    return Invalid("this model learns from images, and this data has rows of " + std::to_string(samples.features) +
                   " numbers; use an idx file of 3 or 4 dimensions, data.kind = \"csv\" with image, or model.kind = "
                   "\"mlp\"");
  }
  return {};
}

nn::ImageSize SizeOf(const ImageShape& image) { return {image.height, image.width, image.channels}; }

}  // namespace

Result<nn::ModelShape> ShapeOfModel(const JobConfig& config, const SampleSpec& samples) {
  const ModelSection& model = config.model;
  if (!model.built_in()) {
    return Invalid(
        "model.kind = \"client\": the model is its workers' own, and known once one of them has declared it; "
        "start your own program as a worker, not capstan-worker");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckData(model, samples));
  switch (model.kind) {
    case ModelKind::kGpt:
      return nn::ModelShape(nn::GptShape{.vocabulary = samples.vocabulary,
                                         .context = samples.context,
                                         .layers = model.layers,
                                         .heads = model.heads,
                                         .width = model.width,
                                         .dropout = model.dropout,
                                         .recompute = config.worker.recompute});
    case ModelKind::kMlp:
      return nn::ModelShape(nn::MlpShape{.features = samples.features,
                                         .classes = samples.classes,
                                         .hidden = Widths(model.hidden),
                                         .dropout = model.dropout});
    case ModelKind::kConvnet:
      return nn::ModelShape(nn::ConvnetShape{.image = SizeOf(samples.image),
                                             .classes = samples.classes,
                                             .channels = Widths(model.channels),
                                             .hidden = Widths(model.hidden),
                                             .dropout = model.dropout});
    case ModelKind::kResnet:
      return nn::ModelShape(nn::ResnetShape{.image = SizeOf(samples.image),
                                            .classes = samples.classes,
                                            .depth = model.depth,
                                            .width = model.width,
                                            .recompute = config.worker.recompute});
    case ModelKind::kClient: break;
  }
  return Unsupported("[model] kind: not built yet");
}

std::vector<TensorSpec> JobTensors(const JobConfig& config, std::vector<TensorSpec> model_tensors) {
  for (TensorSpec& tensor : model_tensors) {
    tensor.decay = tensor.decay && DecayApplies(config.optimizer, tensor.name);
  }
  return model_tensors;
}

}  // namespace capstan::train
