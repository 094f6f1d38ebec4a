#include <algorithm>
#include <cmath>

#include "kernels/lanes.h"
#include "kernels/layer_norm.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRows = 32;
constexpr double kEpsilon = 1e-5;

// Returns the number of rows of a chunk of the backward pass. There are at most 64 chunks, so that their partial sums
// stay small.
std::int64_t ChunkRows(std::int64_t rows) { return std::max(kTaskRows, (rows + 63) / 64); }

// Computes y = (x - mean) * inverse * gamma + beta.
template <class Real>
void ScaleRow(std::int64_t columns, const Real* __restrict x, Real mean, Real inverse, const Real* __restrict gamma,
              const Real* __restrict beta, Real* __restrict y) {
  for (std::int64_t j = 0; j < columns; ++j) y[j] = std::fma((x[j] - mean) * inverse, gamma[j], beta[j]);
}

// What a task uses for all its rows: gamma and beta, and scratch memory for two rows if T has 16 bits.
template <class T>
struct NormaliseTask {
  const Wide<T>* gamma;
  const Wide<T>* beta;
  Wide<T>* scratch;
};

template <class T>
void NormaliseRow(const ResidualLayerNormArgs<T>& args, std::int64_t row, const NormaliseTask<T>& task) {
  using Real = Wide<T>;
  const std::int64_t columns = args.columns, at = row * columns;
  const Real* x = WideRow(args.a + at, columns, task.scratch);
  if (args.b != nullptr) {
    const Real* b = WideRow(args.b + at, columns, task.scratch + WideScratch<T>(columns));
    Real* sum = WideResult(args.sum + at, task.scratch);
    for (std::int64_t j = 0; j < columns; ++j) sum[j] = x[j] + b[j];
    Round(sum, columns, args.sum + at);
    x = WideRow(args.sum + at, columns, task.scratch);
  }
  const Real mean = Sum(x, columns) / static_cast<Real>(columns);
  const Real variance = SumOfSquares(x, columns, mean) / static_cast<Real>(columns);
  const Real inverse = Real(1) / std::sqrt(variance + static_cast<Real>(kEpsilon));
  Real* y = WideResult(args.y + at, task.scratch + WideScratch<T>(columns));
  ScaleRow(columns, x, mean, inverse, task.gamma, task.beta, y);
  Round(y, columns, args.y + at);
  args.mean[row] = mean;
  args.inverse_deviation[row] = inverse;
}

// Adds the row's part of the parameters' gradients to the sums. Also computes normed = x normalised and scaled = dy *
// gamma, from which dx follows.
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

// Computes one row of dx, and adds the row's part of the parameters' gradients to the chunk's sums. `scratch` has 2 *
// columns elements, and WideScratch<T>(3 * columns) more.
template <class T>
void RowBackward(const LayerNormGradient<T>& args, std::int64_t row, const Wide<T>* gamma, Wide<T>* gamma_sums,
                 Wide<T>* beta_sums, Wide<T>* scratch) {
  using Real = Wide<T>;
  const std::int64_t columns = args.columns, at = row * columns;
  Real* const wide = scratch + 2 * columns;
  const Real* x = WideRow(args.x + at, columns, wide);
  const Real* dy = WideRow(args.dy + at, columns, wide + WideScratch<T>(columns));
  const Real inverse = args.inverse_deviation[row];
  const Real* __restrict normed = scratch;
  const Real* __restrict scaled = scratch + columns;
  RowSums(columns, x, args.mean[row], inverse, gamma, dy, gamma_sums, beta_sums, scratch, scratch + columns);
  const Real mean_scaled = Sum(scaled, columns) / static_cast<Real>(columns);
  const Real mean_product = Dot(scaled, normed, columns) / static_cast<Real>(columns);
  const Real keep = args.dx_beta;
  Real* const dx_scratch = wide + WideScratch<T>(2 * columns);
  Real* __restrict dx =
      keep == Real(0) ? WideResult(args.dx + at, dx_scratch) : WideRowInPlace(args.dx + at, columns, dx_scratch);
  if (keep == Real(0)) {
    for (std::int64_t j = 0; j < columns; ++j) dx[j] = (scaled[j] - mean_scaled - normed[j] * mean_product) * inverse;
  } else {
    for (std::int64_t j = 0; j < columns; ++j) {
      dx[j] = keep * dx[j] + (scaled[j] - mean_scaled - normed[j] * mean_product) * inverse;
    }
  }
  Round(dx, columns, args.dx + at);
}

// Computes out = beta * out + sum over chunks; chunk c's sums start at partial + c * stride.
template <class Real>
void AddChunks(const Real* partial, std::int64_t chunks, std::int64_t stride, std::int64_t columns, Real beta,
               Real* out) {
  for (std::int64_t j = 0; j < columns; ++j) out[j] = beta == Real(0) ? partial[j] : beta * out[j] + partial[j];
  for (std::int64_t c = 1; c < chunks; ++c) {
    for (std::int64_t j = 0; j < columns; ++j) out[j] += partial[c * stride + j];
  }
}

}  // namespace

template <class T>
void ResidualLayerNorm(CpuContext& context, const ResidualLayerNormArgs<T>& args) {
  const std::int64_t columns = args.columns, lane_scratch = WideScratch<T>(4 * columns);
  Wide<T>* scratch = context.Workspace<Wide<T>>(static_cast<std::size_t>(lane_scratch * context.threads()));
  context.ParallelFor((args.rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t index, int lane) {
    Wide<T>* own = scratch + lane * lane_scratch;
    const NormaliseTask<T> task{WideRow(args.gamma, columns, own),
                                WideRow(args.beta, columns, own + WideScratch<T>(columns)),
                                own + WideScratch<T>(2 * columns)};
    const std::int64_t last = std::min(args.rows, (index + 1) * kTaskRows);
    for (std::int64_t row = index * kTaskRows; row < last; ++row) NormaliseRow(args, row, task);
  });
}

template <class T>
void LayerNormBackward(CpuContext& context, const LayerNormGradient<T>& args) {
  const std::int64_t columns = args.columns, chunk_rows = ChunkRows(args.rows);
  const std::int64_t chunks = (args.rows + chunk_rows - 1) / chunk_rows;
  // Each chunk has gamma's sums, beta's sums and two rows of scratch. If T has 16 bits, a chunk also has three rows and
  // gamma in Wide<T>.
  const std::int64_t stride = 4 * columns + WideScratch<T>(4 * columns);
  Wide<T>* partial = context.Workspace<Wide<T>>(static_cast<std::size_t>(stride * chunks));
  context.ParallelFor(chunks, [&](std::int64_t chunk, int) {
    Wide<T>* sums = partial + chunk * stride;
    std::fill_n(sums, 2 * columns, Wide<T>(0));
    const Wide<T>* gamma = WideRow(args.gamma, columns, sums + stride - columns);
    const std::int64_t last = std::min(args.rows, (chunk + 1) * chunk_rows);
    for (std::int64_t row = chunk * chunk_rows; row < last; ++row) {
      RowBackward(args, row, gamma, sums, sums + columns, sums + 2 * columns);
    }
  });
  AddChunks(partial, chunks, stride, columns, args.parameter_beta, args.gamma_gradient);
  AddChunks(partial + columns, chunks, stride, columns, args.parameter_beta, args.beta_gradient);
}

template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<float>&);
template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<double>&);
template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<Bf16>&);
template void ResidualLayerNorm(CpuContext&, const ResidualLayerNormArgs<Half>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<float>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<double>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<Bf16>&);
template void LayerNormBackward(CpuContext&, const LayerNormGradient<Half>&);

}  // namespace capstan::kernels
