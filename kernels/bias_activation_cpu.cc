#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/bias_activation.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kRowGroup = 64;

template <class Real>
void DerivativeRow(Activation activation, const Real* __restrict x, Real* __restrict dy, std::int64_t count) {
  if (activation == Activation::kRelu) {
    for (std::int64_t j = 0; j < count; ++j) dy[j] = x[j] > Real(0) ? dy[j] : Real(0);
  } else if (activation == Activation::kGelu) {
    for (std::int64_t j = 0; j < count; ++j) dy[j] *= GeluDerivative(x[j]);
  }
}

// Multiplies dy of rows [first, last) by the activation's derivative, in place, and computes the sum of these rows.
// `scratch` has WideScratch<T>(2 * columns) elements.
template <class T>
void BackwardRows(const BiasActivationGradient<T>& g, std::int64_t first, std::int64_t last, Wide<T>* __restrict sums,
                  Wide<T>* scratch) {
  const std::int64_t columns = g.columns;
  std::fill_n(sums, columns, Wide<T>(0));
  for (std::int64_t row = first; row < last; ++row) {
    Wide<T>* __restrict dy = WideRowInPlace(g.dy + row * columns, columns, scratch);
    if (g.activation != Activation::kNone) {
      DerivativeRow(g.activation, WideRow(g.x + row * columns, columns, scratch + WideScratch<T>(columns)), dy,
                    columns);
      Round(dy, columns, g.dy + row * columns);
    }
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += dy[j];
  }
}

}  // namespace

template <class T>
void BiasActivationBackward(CpuContext& context, const BiasActivationGradient<T>& g) {
  const std::int64_t columns = g.columns, groups = (g.rows + kRowGroup - 1) / kRowGroup;
  const std::int64_t lane_scratch = WideScratch<T>(2 * columns);
  Wide<T>* partial =
      context.Workspace<Wide<T>>(static_cast<std::size_t>(groups * columns + lane_scratch * context.threads()));
  Wide<T>* scratch = partial + groups * columns;
  context.ParallelFor(groups, [&](std::int64_t group, int lane) {
    BackwardRows(g, group * kRowGroup, std::min(g.rows, (group + 1) * kRowGroup), partial + group * columns,
                 scratch + lane * lane_scratch);
  });
  for (std::int64_t group = 1; group < groups; ++group) {
    for (std::int64_t j = 0; j < columns; ++j) partial[j] += partial[group * columns + j];
  }
  Wide<T>* out = g.bias_gradient;
  for (std::int64_t j = 0; j < columns; ++j) out[j] = g.beta == Wide<T>(0) ? partial[j] : g.beta * out[j] + partial[j];
}

template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<float>&);
template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<double>&);
template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<Bf16>&);
template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<Half>&);

}  // namespace capstan::kernels
