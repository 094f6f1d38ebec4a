// BatchNorm, BatchNormEvaluate, BatchNormBackward (Ioffe, Szegedy, 2015). After the normalisation they can also add a
// residual and apply ReLU.
//
// Shapes: x, residual, y, dy, dx [rows, channels], dense: an image's pixels are rows; everything else [channels].
// Types:  float, double (on a CPU), Bf16 and Half; sums are in Wide<T>, and a result is rounded once.
// Parity: sums over a channel in two passes: the mean, then squares about it. Rows are added in ascending order within
//         chunks whose size follows from the number of rows, then the chunks in order. On a device they are added in
//         trees that follow from rows, channels and whether rows are aligned; squares are first about a chunk's mean.
// Why:    the statistics are those of the given rows, a micro-batch, so they depend on no other worker.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

// y = activation((x - mean) / deviation * gamma + beta + residual).
template <class T>
struct BatchNormArgs {
  std::int64_t rows = 0, channels = 0;
  const T* x = nullptr;
  const T* gamma = nullptr;
  const T* beta = nullptr;
  const T* residual = nullptr;                // null: none
  Activation activation = Activation::kNone;  // kNone or kRelu
  T* y = nullptr;                             // may be x in BatchNormEvaluate
  Wide<T>* mean = nullptr;                    // kept for the backward pass
  Wide<T>* inverse_deviation = nullptr;       // 1 / sqrt(variance + 1e-5); the variance is the biased one
  // Running statistics: each becomes average_beta * old + share * new, where new is the mean, or the unbiased variance
  // (0 if there is one row). Null: not computed.
  Wide<T>* mean_average = nullptr;
  Wide<T>* variance_average = nullptr;
  Wide<T> share = 1;
  Wide<T> average_beta = 0;  // 0: written without being read
};

template <class T>
void BatchNorm(CpuContext& context, const BatchNormArgs<T>& args);
template <class T>
void BatchNorm(CudaContext& context, const BatchNormArgs<T>& args);

// Computes y as BatchNorm, but with the given mean and variance. Writes nothing but y.
template <class T>
void BatchNormEvaluate(CpuContext& context, const BatchNormArgs<T>& args, const Wide<T>* mean, const Wide<T>* variance);
template <class T>
void BatchNormEvaluate(CudaContext& context, const BatchNormArgs<T>& args, const Wide<T>* mean,
                       const Wide<T>* variance);

template <class T>
struct BatchNormGradient {
  std::int64_t rows = 0, channels = 0;
  const T* x = nullptr;
  const Wide<T>* mean = nullptr;
  const Wide<T>* inverse_deviation = nullptr;
  const T* gamma = nullptr;
  Activation activation = Activation::kNone;
  const T* y = nullptr;               // kRelu: the forward output
  T* dy = nullptr;                    // becomes the gradient before the activation, which is also the residual's
  T* dx = nullptr;                    // may be dy, if the residual's gradient is not needed
  Wide<T>* gamma_gradient = nullptr;  // parameter_beta * old + gradient
  Wide<T>* beta_gradient = nullptr;
  Wide<T> parameter_beta = 0;
};

template <class T>
void BatchNormBackward(CpuContext& context, const BatchNormGradient<T>& gradient);
template <class T>
void BatchNormBackward(CudaContext& context, const BatchNormGradient<T>& gradient);

}  // namespace capstan::kernels
