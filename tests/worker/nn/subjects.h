// Models to test, with any type of number, and batches and weights for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "worker/nn/model.h"

namespace capstan::nn {

inline constexpr StepKey kKey{.seed = 1, .step = 2, .slot = 3, .micro_batch = 4};

inline std::uint64_t ElementsOf(const std::vector<TensorSpec>& tensors) {
  std::uint64_t count = 0;
  for (const TensorSpec& tensor : tensors) count += tensor.ElementCount();
  return count;
}

// A batch that owns its arrays.
struct Samples {
  std::int64_t count = 0;
  std::vector<float> inputs;
  std::vector<std::int32_t> tokens, targets;

  Batch View() const { return {.samples = count, .inputs = inputs, .tokens = tokens, .targets = targets}; }
  // Returns the samples [first, first + part).
  Samples Part(std::int64_t first, std::int64_t part) const {
    const auto cut = [&](const auto& all) {
      const auto each = static_cast<std::int64_t>(all.size()) / count;
      return std::decay_t<decltype(all)>(all.begin() + first * each, all.begin() + (first + part) * each);
    };
    return {part, cut(inputs), cut(tokens), cut(targets)};
  }
};

// One model to test, for any element type, with its batches.
struct Subject {
  std::string name;
  MlpShape mlp;
  GptShape gpt;
  ConvnetShape convnet = {};

  bool IsGpt() const { return gpt.layers > 0; }
  bool IsConvnet() const { return !convnet.channels.empty(); }
  std::int64_t Features() const { return IsConvnet() ? convnet.image.elements() : mlp.features; }
  std::int64_t Classes() const { return IsGpt() ? gpt.vocabulary : IsConvnet() ? convnet.classes : mlp.classes; }

  template <class T>
  std::unique_ptr<Model<T>> Make(kernels::CpuContext& context) const {
    auto model = IsGpt()       ? CreateGpt<T>(context, gpt)
                 : IsConvnet() ? CreateConvnet<T>(context, convnet)
                               : CreateMlp<T>(context, mlp);
    REQUIRE(model.ok());
    return std::move(model).value();
  }

  Samples MakeSamples(std::int64_t count, std::uint64_t seed) const {
    if (IsGpt()) {
      const auto vocabulary = static_cast<std::int32_t>(gpt.vocabulary);
      return {count,
              {},
              kernels::RandomIndices(count * gpt.context, vocabulary, seed),
              kernels::RandomIndices(count * gpt.context, vocabulary, seed + 1)};
    }
    return {count,
            kernels::RandomNumbers<float>(count * Features(), seed),
            {},
            kernels::RandomIndices(count, static_cast<std::int32_t>(Classes()), seed + 1)};
  }
};

inline Subject SmallMlp(double dropout) {
  return {"mlp", {.features = 5, .classes = 3, .hidden = {7, 4}, .dropout = dropout}, {}};
}
inline Subject SmallGpt(double dropout) {
  return {"gpt", {}, {.vocabulary = 7, .context = 5, .layers = 2, .heads = 3, .width = 6, .dropout = dropout}};
}
inline Subject SmallConvnet(double dropout) {
  return {"convnet", {}, {}, {.image = {5, 7, 2}, .classes = 3, .channels = {3, 2}, .hidden = {4}, .dropout = dropout}};
}
inline Subject LargerMlp(double dropout) {
  return {"mlp", {.features = 61, .classes = 10, .hidden = {130, 70}, .dropout = dropout}, {}};
}
inline Subject LargerGpt(double dropout) {
  return {"gpt", {}, {.vocabulary = 97, .context = 70, .layers = 3, .heads = 2, .width = 48, .dropout = dropout}};
}
inline Subject LargerConvnet(double dropout) {
  return {"convnet",
          {},
          {},
          {.image = {15, 17, 3}, .classes = 10, .channels = {17, 33}, .hidden = {70}, .dropout = dropout}};
}

// Returns random weights, so large that every nonlinearity affects the result.
template <class T>
std::vector<T> SomeWeights(const Model<T>& model) {
  std::vector<T> weights = kernels::RandomNumbers<T>(static_cast<std::int64_t>(ElementsOf(model.tensors())), 99);
  for (T& w : weights) w = Narrow<T>(Widen(w) * Wide<T>(0.4));
  return weights;
}

}  // namespace capstan::nn
