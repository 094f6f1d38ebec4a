#include <algorithm>
#include <cmath>

#include "kernels/lanes.h"
#include "kernels/layer_norm.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRows = 32;
constexpr double kEpsilon = 1e-5;

// Rows of one task of the backward pass: few enough tasks that their partial sums stay small.
std::int64_t ChunkRows(std::int64_t rows) { return std::max(kTaskRows, (rows + 63) / 64); }

// y = (x - mean) * inverse * gamma + beta.
template <class Real>
void ScaleRow(std::int64_t columns, const Real* __restrict x, Real mean, Real inverse, const Real* __restrict gamma,
              const Real* __restrict beta, Real* __restrict y) {
  for (std::int64_t j = 0; j < columns; ++j) y[j] = std::fma((x[j] - mean) * inverse, gamma[j], beta[j]);
}

template <class Real>
void NormaliseRow(const ResidualLayerNormArgs<Real>& args, std::int64_t row) {
  const std::int64_t columns = args.columns, at = row * columns;
  const Real* x = args.a + at;
  if (args.b != nullptr) {
    const Real* b = args.b + at;
    Real* sum = args.sum + at;
    for (std::int64_t j = 0; j < columns; ++j) sum[j] = x[j] + b[j];
    x = sum;
  }
  const Real mean = Sum(x, columns) / static_cast<Real>(columns);
  const Real variance = SumOfSquares(x, columns, mean) / static_cast<Real>(columns);
  const Real inverse = Real(1) / std::sqrt(variance + static_cast<Real>(kEpsilon));
  ScaleRow(columns, x, mean, inverse, args.gamma, args.beta, args.y + at);
  args.mean[row] = mean;
  args.inverse_deviation[row] = inverse;
}

// The row's part of the parameters' gradients, and what its dx is made of.
template <class Real>
void RowSums(std::int64_t columns, const Real* __restrict x, Real mean, Real inverse, const Real* __restrict gamma,
             const Real* __restrict dy, Real* __restrict gamma_sums, Real* __restrict beta_sums,
             Real* __restrict normed, Real* __restrict scaled) {
  for (std::int64_t j = 0; j < columns; ++j) {
    normed[j] = (x[j] - mean) * inverse;
    scaled[j] = dy[j] * gamma[j];
    gamma_sums[j] += dy[j] * normed[j];
    beta_sums[j] += dy[j];
  }
}

// One row of dx; adds the row's part of the parameters' gradients to the chunk's sums. `scratch` has 2 * columns.
template <class Real>
void RowBackward(const LayerNormGradient<Real>& args, std::int64_t row, Real* gamma_sums, Real* beta_sums,
                 Real* scratch) {
  const std::int64_t columns = args.columns, at = row * columns;
  const Real inverse = args.inverse_deviation[row];
  const Real* __restrict normed = scratch;
  const Real* __restrict scaled = scratch + columns;
  Real* __restrict dx = args.dx + at;
  RowSums(columns, args.x + at, args.mean[row], inverse, args.gamma, args.dy + at, gamma_sums, beta_sums, scratch,
          scratch + columns);
  const Real mean_scaled = Sum(scaled, columns) / static_cast<Real>(columns);
  const Real mean_product = Dot(scaled, normed, columns) / static_cast<Real>(columns);
  const Real keep = args.dx_beta;
  if (keep == Real(0)) {
    for (std::int64_t j = 0; j < columns; ++j) dx[j] = (scaled[j] - mean_scaled - normed[j] * mean_product) * inverse;
  } else {
    for (std::int64_t j = 0; j < columns; ++j) {
      dx[j] = keep * dx[j] + (scaled[j] - mean_scaled - normed[j] * mean_product) * inverse;
    }
  }
}

// out = beta * out + sum over chunks; chunk c's sums start at partial + c * stride.
template <class Real>
void AddChunks(const Real* partial, std::int64_t chunks, std::int64_t stride, std::int64_t columns, Real beta,
               Real* out) {
  for (std::int64_t j = 0; j < columns; ++j) out[j] = beta == Real(0) ? partial[j] : beta * out[j] + partial[j];
  for (std::int64_t c = 1; c < chunks; ++c) {
    for (std::int64_t j = 0; j < columns; ++j) out[j] += partial[c * stride + j];
  }
}

}  // namespace

template <class Real>
void ResidualLayerNorm(CpuContext& context, const ResidualLayerNormArgs<Real>& args) {
  context.ParallelFor((args.rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t task, int) {
    const std::int64_t last = std::min(args.rows, (task + 1) * kTaskRows);
    for (std::int64_t row = task * kTaskRows; row < last; ++row) NormaliseRow(args, row);
  });
}

template <class Real>
void LayerNormBackward(CpuContext& context, const LayerNormGradient<Real>& args) {
  const std::int64_t columns = args.columns, chunk_rows = ChunkRows(args.rows);
  const std::int64_t chunks = (args.rows + chunk_rows - 1) / chunk_rows;
  // For each chunk: gamma's sums, beta's sums, two rows of scratch.
  Real* partial = context.Workspace<Real>(static_cast<std::size_t>(4 * columns * chunks));
  context.ParallelFor(chunks, [&](std::int64_t chunk, int) {
    Real* sums = partial + chunk * 4 * columns;
    std::fill_n(sums, 2 * columns, Real(0));
    const std::int64_t last = std::min(args.rows, (chunk + 1) * chunk_rows);
    for (std::int64_t row = chunk * chunk_rows; row < last; ++row) {
      RowBackward(args, row, sums, sums + columns, sums + 2 * columns);
    }
  });
  AddChunks(partial, chunks, 4 * columns, columns, args.parameter_beta, args.gamma_gradient);
  AddChunks(partial + columns, chunks, 4 * columns, columns, args.parameter_beta, args.beta_gradient);
}

template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<float>&);
template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<double>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<float>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<double>&);

}  // namespace capstan::kernels
