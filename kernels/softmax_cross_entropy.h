// SoftmaxCrossEntropy: loss = -log softmax(logits)[target], summed over rows, and its gradient in place of the logits.
//
// Shapes: logits [rows, classes] with stride >= classes; targets [rows], each in [0, classes).
// Types:  float, double, Bf16, Half; the loss is added in double.
// Parity: sums over a row in the order of lanes.h; the rows' losses in ascending order. On a device a row is added in
//         the order of cuda/rows.h, relative to the largest number that a thread has seen so far; the rows' losses are
//         added by 1024 threads, each every 1024th row, and then over the threads.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

struct LossResult {
  double loss = 0;           // summed over rows
  std::int64_t correct = 0;  // rows whose target has the largest logit
};

template <class T>
struct SoftmaxCrossEntropyArgs {
  std::int64_t rows = 0, classes = 0, stride = 0;
  T* logits = nullptr;  // becomes gradient_scale * (softmax - one-hot)
  const std::int32_t* targets = nullptr;
  Wide<T> gradient_scale = 1;
  LossResult* result = nullptr;  // written; in the context's memory
};

template <class T>
void SoftmaxCrossEntropy(CpuContext& context, const SoftmaxCrossEntropyArgs<T>& args);
template <class T>
void SoftmaxCrossEntropy(CudaContext& context, const SoftmaxCrossEntropyArgs<T>& args);

}  // namespace capstan::kernels
