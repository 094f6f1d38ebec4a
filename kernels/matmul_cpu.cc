#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/matmul.h"
#include "kernels/matmul_simd.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRowsMin = 240, kTaskColumnsMin = 128;

std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has;
}

template <class Real>
void Activate(const Product<Real>& product) {
  for (std::int64_t i = 0; i < product.m; ++i) {
    const Real* in = product.c + i * product.c_stride;
    Real* out = product.activated + i * product.c_stride;
    if (product.activation == Activation::kRelu) {
      for (std::int64_t j = 0; j < product.n; ++j) out[j] = ReluOf(in[j]);
    } else {
      for (std::int64_t j = 0; j < product.n; ++j) out[j] = GeluOf(in[j]);
    }
  }
}

// Rows [row, row + rows) and columns [column, column + columns) of `whole`.
template <class Real>
Product<Real> Part(const Product<Real>& whole, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns) {
  Product<Real> part = whole;
  part.m = rows;
  part.n = columns;
  part.a.data += whole.a.transpose == Transpose::kYes ? row : row * whole.a.stride;
  part.b.data += whole.b.transpose == Transpose::kYes ? column * whole.b.stride : column;
  part.c += row * whole.c_stride + column;
  if (whole.bias != nullptr) part.bias += column;
  if (whole.activated != nullptr) part.activated += row * whole.c_stride + column;
  return part;
}

}  // namespace

template <class Real>
void MatmulOnThisThread(const Product<Real>& product, Real* scratch) {
  if (HasAvx512()) {
    ProductAvx512(product, scratch);
  } else {
    ProductAvx2(product, scratch);
  }
  if (product.activation != Activation::kNone) Activate(product);
}

template <class Real>
void Matmul(CpuContext& context, const Product<Real>& product) {
  const int threads = context.threads();
  Real* scratch = context.Workspace<Real>(static_cast<std::size_t>(kMatmulScratch * threads));
  if (threads == 1) return MatmulOnThisThread(product, scratch);
  // The cut does not move a bit, so it may follow the number of threads: some tasks for each, of whole tiles.
  const std::int64_t wanted = 4 * threads;
  const std::int64_t row_tasks = std::clamp<std::int64_t>(product.m / kTaskRowsMin, 1, wanted);
  const std::int64_t column_tasks =
      std::clamp<std::int64_t>(product.n / kTaskColumnsMin, 1, (wanted + row_tasks - 1) / row_tasks);
  const std::int64_t rows = RoundUp((product.m + row_tasks - 1) / row_tasks, 12);
  const std::int64_t columns = RoundUp((product.n + column_tasks - 1) / column_tasks, 32);
  context.ParallelFor(row_tasks * column_tasks, [&](std::int64_t index, int lane) {
    const std::int64_t row = index / column_tasks * rows, column = index % column_tasks * columns;
    if (row >= product.m || column >= product.n) return;
    MatmulOnThisThread(
        Part(product, row, std::min(rows, product.m - row), column, std::min(columns, product.n - column)),
        scratch + lane * kMatmulScratch);
  });
}

template void Matmul(CpuContext&, const Product<float>&);
template void Matmul(CpuContext&, const Product<double>&);
template void MatmulOnThisThread(const Product<float>&, float*);
template void MatmulOnThisThread(const Product<double>&, double*);

std::string MatmulDispatchName() { return HasAvx512() ? "avx512" : "avx2"; }

}  // namespace capstan::kernels
