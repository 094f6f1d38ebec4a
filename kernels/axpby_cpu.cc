#include <algorithm>

#include "kernels/axpby.h"

namespace capstan::kernels {

template <class Real>
void Axpby(CpuContext& context, std::int64_t count, Real a, const Real* x, Real b, Real* y) {
  constexpr std::int64_t kTask = 65536;
  context.ParallelFor((count + kTask - 1) / kTask, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTask, last = std::min(count, first + kTask);
    if (b == Real(0)) {
      for (std::int64_t i = first; i < last; ++i) y[i] = a * x[i];
    } else {
      for (std::int64_t i = first; i < last; ++i) y[i] = a * x[i] + b * y[i];
    }
  });
}

template void Axpby(CpuContext&, std::int64_t, float, const float*, float, float*);
template void Axpby(CpuContext&, std::int64_t, double, const double*, double, double*);

}  // namespace capstan::kernels
