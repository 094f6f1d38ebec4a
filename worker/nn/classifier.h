// Functions that several models share: check a batch of rows, convert inputs to the model's type, compute the loss.
//
// Kind:   functions without state of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/base/status.h"
#include "common/data/number16.h"
#include "kernels/cast.h"
#include "kernels/softmax_cross_entropy.h"
#include "worker/nn/model.h"

namespace capstan::nn {

inline void CheckRows(const Batch& batch, std::int64_t features, std::int64_t classes) {
  const auto samples = static_cast<std::size_t>(batch.samples);
  CAPSTAN_CHECK(batch.samples >= 1 && batch.targets.size() == samples);
  CAPSTAN_CHECK(batch.inputs.size() == samples * static_cast<std::size_t>(features));
  for (const std::int32_t target : batch.targets) CAPSTAN_CHECK(target >= 0 && target < classes);
}

// Whether a model of type T must convert its fp32 inputs, and so needs memory for them.
template <class T>
inline constexpr bool kConvertsInputs = !std::is_same_v<T, float>;

// Returns the batch's inputs as T; `converted` has room for them if kConvertsInputs.
template <class T, class Context>
const T* InputsAs([[maybe_unused]] Context& context, const Batch& batch, T* converted) {
  if constexpr (!kConvertsInputs<T>) {
    return batch.inputs.data();
  } else if constexpr (kIs16Bit<T>) {
    Cast(context, static_cast<std::int64_t>(batch.inputs.size()), batch.inputs.data(), converted);
    return converted;
  } else {
    std::copy(batch.inputs.begin(), batch.inputs.end(), converted);
    return converted;
  }
}

// Computes the loss. Overwrites `logits` with the gradient of scale * loss.
template <class Context, class T>
void ClassLoss(Context& context, const Batch& batch, std::int64_t classes, double scale, T* logits,
               kernels::LossResult* result) {
  SoftmaxCrossEntropy(context, kernels::SoftmaxCrossEntropyArgs<T>{.rows = batch.samples,
                                                                   .classes = classes,
                                                                   .stride = classes,
                                                                   .logits = logits,
                                                                   .targets = batch.targets.data(),
                                                                   .gradient_scale = static_cast<Wide<T>>(scale),
                                                                   .result = result});
}

// Waits for the loss, and reads it from the context's memory. `predictions`: the number of predictions in it.
template <class Context>
LossSums ReadLoss(Context& context, std::int64_t predictions, const kernels::LossResult* result) {
  const kernels::LossResult loss = context.Read(result);
  return {loss.loss, predictions, loss.correct};
}

}  // namespace capstan::nn
