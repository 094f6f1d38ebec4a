#include "kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation_math.h"

namespace capstan::kernels {
namespace {

constexpr double kEpsilon = 1e-5;

// Returns the number of rows of a chunk. There are at most 256 chunks, so that their partial sums stay small.
std::int64_t ChunkRows(std::int64_t rows) { return std::max<std::int64_t>(64, (rows + 255) / 256); }

std::int64_t ChunkCount(std::int64_t rows) { return (rows + ChunkRows(rows) - 1) / ChunkRows(rows); }

// Calls work(first, last, chunk) for the chunks of `rows`.
template <class Work>
void ForChunks(CpuContext& context, std::int64_t rows, const Work& work) {
  const std::int64_t each = ChunkRows(rows);
  context.ParallelFor(ChunkCount(rows),
                      [&](std::int64_t chunk, int) { work(chunk * each, std::min(rows, (chunk + 1) * each), chunk); });
}

// Calls add(row, sums) for every row, which adds to sums[0, width). `partial` has ChunkCount * width elements; the sums
// over all rows are at its beginning.
template <class Real, class Add>
void SumRows(CpuContext& context, std::int64_t rows, std::int64_t width, Real* partial, const Add& add) {
  ForChunks(context, rows, [&](std::int64_t first, std::int64_t last, std::int64_t chunk) {
    Real* sums = partial + chunk * width;
    std::fill_n(sums, width, Real(0));
    for (std::int64_t row = first; row < last; ++row) add(row, sums);
  });
  for (std::int64_t chunk = 1; chunk < ChunkCount(rows); ++chunk) {
    const Real* sums = partial + chunk * width;
    for (std::int64_t j = 0; j < width; ++j) partial[j] += sums[j];
  }
}

template <class T>
void AddRow(std::int64_t channels, const T* __restrict x, Wide<T>* __restrict sums) {
  for (std::int64_t j = 0; j < channels; ++j) sums[j] += Widen(x[j]);
}

template <class T>
void AddSquares(std::int64_t channels, const T* __restrict x, const Wide<T>* __restrict mean,
                Wide<T>* __restrict sums) {
  for (std::int64_t j = 0; j < channels; ++j) {
    const Wide<T> d = Widen(x[j]) - mean[j];
    sums[j] += d * d;
  }
}

template <class T>
Wide<T> InverseDeviation(Wide<T> variance) {
  return Wide<T>(1) / std::sqrt(variance + static_cast<Wide<T>>(kEpsilon));
}

// Computes out = beta * out + value.
template <class Real>
void Blend(Real beta, Real value, Real* out) {
  *out = beta == Real(0) ? value : beta * *out + value;
}

// Computes y = activation(normalised x * gamma + beta + residual) for a row.
template <class T>
void NormaliseRow(const BatchNormArgs<T>& args, std::int64_t row, const Wide<T>* __restrict mean,
                  const Wide<T>* __restrict inverse) {
  const std::int64_t channels = args.channels;
  const T* x = args.x + row * channels;  // may be y
  const T* __restrict gamma = args.gamma;
  const T* __restrict beta = args.beta;
  T* y = args.y + row * channels;
  const auto value = [&](std::int64_t j) {
    return std::fma((Widen(x[j]) - mean[j]) * inverse[j], Widen(gamma[j]), Widen(beta[j]));
  };
  const auto store = [&](const auto& of) {
    if (args.activation == Activation::kRelu) {
      for (std::int64_t j = 0; j < channels; ++j) y[j] = Narrow<T>(ReluOf(of(j)));
    } else {
      for (std::int64_t j = 0; j < channels; ++j) y[j] = Narrow<T>(of(j));
    }
  };
  if (args.residual == nullptr) return store(value);
  const T* residual = args.residual + row * channels;
  store([&](std::int64_t j) { return value(j) + Widen(residual[j]); });
}

template <class T>
void Normalise(CpuContext& context, const BatchNormArgs<T>& args, const Wide<T>* mean, const Wide<T>* inverse) {
  ForChunks(context, args.rows, [&](std::int64_t first, std::int64_t last, std::int64_t) {
    for (std::int64_t row = first; row < last; ++row) NormaliseRow(args, row, mean, inverse);
  });
}

// Multiplies the row of dy by the activation's derivative, in place; then adds the row's part of the gradients of gamma
// and beta to the sums.
template <class T>
void AddGradients(const BatchNormGradient<T>& g, std::int64_t row, Wide<T>* __restrict gamma_sums,
                  Wide<T>* __restrict beta_sums) {
  const std::int64_t channels = g.channels, at = row * channels;
  const T* __restrict x = g.x + at;
  T* __restrict dy = g.dy + at;
  if (g.activation == Activation::kRelu) {
    const T* __restrict y = g.y + at;
    for (std::int64_t j = 0; j < channels; ++j) dy[j] = Widen(y[j]) > Wide<T>(0) ? dy[j] : T{};
  }
  for (std::int64_t j = 0; j < channels; ++j) {
    const Wide<T> d = Widen(dy[j]);
    gamma_sums[j] += d * ((Widen(x[j]) - g.mean[j]) * g.inverse_deviation[j]);
    beta_sums[j] += d;
  }
}

// Computes dx = gamma / deviation * (dy - mean(dy) - n * mean(dy * n)) for a row, where n is x normalised.
template <class T>
void InputRow(const BatchNormGradient<T>& g, std::int64_t row, const Wide<T>* __restrict mean_product,
              const Wide<T>* __restrict mean_dy) {
  const std::int64_t channels = g.channels, at = row * channels;
  const T* __restrict x = g.x + at;
  const Wide<T>* __restrict mean = g.mean;
  const Wide<T>* __restrict inverse = g.inverse_deviation;
  const T* __restrict gamma = g.gamma;
  const T* dy = g.dy + at;  // may be dx
  T* dx = g.dx + at;
  for (std::int64_t j = 0; j < channels; ++j) {
    const Wide<T> normed = (Widen(x[j]) - mean[j]) * inverse[j];
    const Wide<T> centred = Widen(dy[j]) - mean_dy[j] - normed * mean_product[j];
    dx[j] = Narrow<T>(centred * (Widen(gamma[j]) * inverse[j]));
  }
}

}  // namespace

template <class T>
void BatchNorm(CpuContext& context, const BatchNormArgs<T>& args) {
  const std::int64_t rows = args.rows, channels = args.channels;
  const auto count = static_cast<Wide<T>>(rows);
  auto* sums = context.Workspace<Wide<T>>(static_cast<std::size_t>(ChunkCount(rows) * channels));
  SumRows(context, rows, channels, sums,
          [&](std::int64_t row, Wide<T>* to) { AddRow(channels, args.x + row * channels, to); });
  for (std::int64_t j = 0; j < channels; ++j) args.mean[j] = sums[j] / count;
  SumRows(context, rows, channels, sums,
          [&](std::int64_t row, Wide<T>* to) { AddSquares(channels, args.x + row * channels, args.mean, to); });
  const auto others = static_cast<Wide<T>>(std::max<std::int64_t>(1, rows - 1));
  for (std::int64_t j = 0; j < channels; ++j) {
    args.inverse_deviation[j] = InverseDeviation<T>(sums[j] / count);
    if (args.mean_average == nullptr) continue;
    Blend(args.average_beta, args.share * args.mean[j], args.mean_average + j);
    Blend(args.average_beta, args.share * (sums[j] / others), args.variance_average + j);
  }
  Normalise(context, args, args.mean, args.inverse_deviation);
}

template <class T>
void BatchNormEvaluate(CpuContext& context, const BatchNormArgs<T>& args, const Wide<T>* mean,
                       const Wide<T>* variance) {
  const std::int64_t channels = args.channels;
  auto* inverse = context.Workspace<Wide<T>>(static_cast<std::size_t>(channels));
  for (std::int64_t j = 0; j < channels; ++j) inverse[j] = InverseDeviation<T>(variance[j]);
  Normalise(context, args, mean, inverse);
}

template <class T>
void BatchNormBackward(CpuContext& context, const BatchNormGradient<T>& g) {
  const std::int64_t rows = g.rows, channels = g.channels;
  const auto count = static_cast<Wide<T>>(rows);
  // The array begins with the sums for gamma; the sums for beta follow.
  auto* sums = context.Workspace<Wide<T>>(static_cast<std::size_t>(2 * ChunkCount(rows) * channels));
  SumRows(context, rows, 2 * channels, sums,
          [&](std::int64_t row, Wide<T>* to) { AddGradients(g, row, to, to + channels); });
  for (std::int64_t j = 0; j < channels; ++j) {
    Blend(g.parameter_beta, sums[j], g.gamma_gradient + j);
    Blend(g.parameter_beta, sums[channels + j], g.beta_gradient + j);
  }
  for (std::int64_t j = 0; j < 2 * channels; ++j) sums[j] /= count;
  ForChunks(context, rows, [&](std::int64_t first, std::int64_t last, std::int64_t) {
    for (std::int64_t row = first; row < last; ++row) InputRow(g, row, sums, sums + channels);
  });
}

template void BatchNorm(CpuContext&, const BatchNormArgs<float>&);
template void BatchNorm(CpuContext&, const BatchNormArgs<double>&);
template void BatchNorm(CpuContext&, const BatchNormArgs<Bf16>&);
template void BatchNorm(CpuContext&, const BatchNormArgs<Half>&);
template void BatchNormEvaluate(CpuContext&, const BatchNormArgs<float>&, const float*, const float*);
template void BatchNormEvaluate(CpuContext&, const BatchNormArgs<double>&, const double*, const double*);
template void BatchNormEvaluate(CpuContext&, const BatchNormArgs<Bf16>&, const float*, const float*);
template void BatchNormEvaluate(CpuContext&, const BatchNormArgs<Half>&, const float*, const float*);
template void BatchNormBackward(CpuContext&, const BatchNormGradient<float>&);
template void BatchNormBackward(CpuContext&, const BatchNormGradient<double>&);
template void BatchNormBackward(CpuContext&, const BatchNormGradient<Bf16>&);
template void BatchNormBackward(CpuContext&, const BatchNormGradient<Half>&);

}  // namespace capstan::kernels
