// ModelSection: section [model] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

namespace capstan {

// kClient: the workers are the user's own programs, and declare the tensors.
enum class ModelKind : std::uint8_t { kGpt, kMlp, kConvnet, kResnet, kClient };
// The sizes of OpenAI's GPT-2, for which published weights exist.
enum class ModelPreset : std::uint8_t { kNone, kGpt2, kGpt2Medium, kGpt2Large, kGpt2Xl };

struct ModelSection {
  ModelKind kind = ModelKind::kMlp;  // required
  // gpt: a preset fixes the sizes, and only the context may be smaller
  ModelPreset preset = ModelPreset::kNone;
  std::uint32_t layers = 4;
  std::uint32_t heads = 4;
  std::uint32_t width = 128;    // resnet: channels of its first stage, default 64
  std::uint32_t context = 128;  // tokens of a sample
  // resnet
  std::uint32_t depth = 18;  // 18, 34, 50, 101 or 152
  // convnet
  std::vector<std::uint32_t> channels = {32, 64};  // filters of each convolution; the image is halved after each
  // mlp, convnet
  std::vector<std::uint32_t> hidden = {128};
  // gpt, mlp, convnet
  double dropout = 0.0;  // in [0, 1)
  bool operator==(const ModelSection&) const = default;

  // Whether capstan-worker computes the model. If not, [data] and most keys of [worker] must be left out.
  bool built_in() const { return kind != ModelKind::kClient; }
  bool reads_tokens() const { return kind == ModelKind::kGpt; }
  bool can_recompute() const { return kind == ModelKind::kGpt || kind == ModelKind::kResnet; }
  bool reads_images() const { return kind == ModelKind::kConvnet || kind == ModelKind::kResnet; }
};

}  // namespace capstan
