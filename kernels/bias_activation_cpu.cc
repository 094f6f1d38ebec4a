#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/bias_activation.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskColumns = 128;
constexpr std::int64_t kRowGroup = 64;

template <class Real>
void DerivativeRow(Activation activation, const Real* x, Real* dy, std::int64_t count) {
  if (activation == Activation::kRelu) {
    for (std::int64_t j = 0; j < count; ++j) dy[j] = x[j] > Real(0) ? dy[j] : Real(0);
  } else if (activation == Activation::kGelu) {
    for (std::int64_t j = 0; j < count; ++j) dy[j] *= GeluDerivative(x[j]);
  }
}

// Columns [first, first + count).
template <class Real>
void BackwardColumns(const BiasActivationGradient<Real>& g, std::int64_t first, std::int64_t count) {
  Real total[kTaskColumns] = {};
  for (std::int64_t group = 0; group < g.rows; group += kRowGroup) {
    Real sums[kTaskColumns] = {};
    for (std::int64_t row = group; row < std::min(g.rows, group + kRowGroup); ++row) {
      Real* dy = g.dy + row * g.columns + first;
      if (g.activation != Activation::kNone) DerivativeRow(g.activation, g.x + row * g.columns + first, dy, count);
      for (std::int64_t j = 0; j < count; ++j) sums[j] += dy[j];
    }
    for (std::int64_t j = 0; j < count; ++j) total[j] += sums[j];
  }
  Real* out = g.bias_gradient + first;
  for (std::int64_t j = 0; j < count; ++j) out[j] = g.beta == Real(0) ? total[j] : g.beta * out[j] + total[j];
}

}  // namespace

template <class Real>
void BiasActivationBackward(CpuContext& context, const BiasActivationGradient<Real>& g) {
  context.ParallelFor((g.columns + kTaskColumns - 1) / kTaskColumns, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTaskColumns;
    BackwardColumns(g, first, std::min(kTaskColumns, g.columns - first));
  });
}

template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<float>&);
template void BiasActivationBackward(CpuContext&, const BiasActivationGradient<double>&);

}  // namespace capstan::kernels
