#include <algorithm>

#include "kernels/axpby.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTask = 65536;

template <class Real>
void AxpbyPiece(std::int64_t count, Real a, const Real* x, Real b, Real* y) {
  if (b == Real(0)) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = a * x[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = a * x[i] + b * y[i];
  }
}

}  // namespace

template <class T>
void Axpby(CpuContext& context, std::int64_t count, Wide<T> a, const T* x, Wide<T> b, T* y) {
  constexpr std::int64_t kPiece = kIs16Bit<T> ? 512 : kTask;  // numbers on the stack at once, if T needs a copy
  context.ParallelFor((count + kTask - 1) / kTask, [&](std::int64_t task, int) {
    Wide<T> scratch[2][WideScratch<T>(kPiece) + 1];
    const std::int64_t last = std::min(count, (task + 1) * kTask);
    for (std::int64_t first = task * kTask; first < last; first += kPiece) {
      const std::int64_t piece = std::min(kPiece, last - first);
      Wide<T>* out = b == Wide<T>(0) ? WideResult(y + first, scratch[1]) : WideRowInPlace(y + first, piece, scratch[1]);
      AxpbyPiece(piece, a, WideRow(x + first, piece, scratch[0]), b, out);
      Round(out, piece, y + first);
    }
  });
}

template void Axpby(CpuContext&, std::int64_t, float, const float*, float, float*);
template void Axpby(CpuContext&, std::int64_t, double, const double*, double, double*);
template void Axpby(CpuContext&, std::int64_t, float, const Bf16*, float, Bf16*);
template void Axpby(CpuContext&, std::int64_t, float, const Half*, float, Half*);

}  // namespace capstan::kernels
