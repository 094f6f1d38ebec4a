#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/bias_activation.h"

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

// Rows [first, last): dy in place, and their sum.
template <class Real>
void BackwardRows(const BiasActivationGradient<Real>& g, std::int64_t first, std::int64_t last, Real* __restrict sums) {
  const std::int64_t columns = g.columns;
  std::fill_n(sums, columns, Real(0));
  for (std::int64_t row = first; row < last; ++row) {
    Real* __restrict dy = g.dy + row * columns;
    if (g.activation != Activation::kNone) DerivativeRow(g.activation, g.x + row * columns, dy, columns);
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += dy[j];
  }
}

}  // namespace

template <class Real>
void BiasActivationBackward(CpuContext& context, const BiasActivationGradient<Real>& g) {
  const std::int64_t columns = g.columns, groups = (g.rows + kRowGroup - 1) / kRowGroup;
  Real* partial = context.Workspace<Real>(static_cast<std::size_t>(groups * columns));
  context.ParallelFor(groups, [&](std::int64_t group, int) {
    BackwardRows(g, group * kRowGroup, std::min(g.rows, (group + 1) * kRowGroup), partial + group * columns);
  });
  for (std::int64_t group = 1; group < groups; ++group) {
    for (std::int64_t j = 0; j < columns; ++j) partial[j] += partial[group * columns + j];
  }
  Real* out = g.bias_gradient;
  for (std::int64_t j = 0; j < columns; ++j) out[j] = g.beta == Real(0) ? partial[j] : g.beta * out[j] + partial[j];
}

template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<float>&);
template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<double>&);

}  // namespace capstan::kernels
