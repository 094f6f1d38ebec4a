#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/matmul.h"
#include "kernels/matmul_simd.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRows = 504;  // as many rows of A as a thread packs at once
constexpr std::int64_t kTaskColumnsMin = 128;

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
  Real* scratch = context.Workspace<Real>(static_cast<std::size_t>(kMatmulScratch * context.threads()));
  // The cut does not move a bit, so it may follow the number of threads.
  const std::int64_t row_tasks = (product.m + kTaskRows - 1) / kTaskRows;
  const std::int64_t wanted = context.threads() == 1 ? 1 : (4 * context.threads() + row_tasks - 1) / row_tasks;
  const std::int64_t column_tasks = std::clamp<std::int64_t>(product.n / kTaskColumnsMin, 1, wanted);
  const std::int64_t columns = ((product.n + column_tasks - 1) / column_tasks + 31) / 32 * 32;
  context.ParallelFor(row_tasks * column_tasks, [&](std::int64_t index, int lane) {
    const std::int64_t row = index / column_tasks * kTaskRows, column = index % column_tasks * columns;
    if (column >= product.n) return;
    MatmulOnThisThread(Part(product, row, std::min(kTaskRows, product.m - row), column,
                            std::min(columns, product.n - column)),
                       scratch + lane * kMatmulScratch);
  });
}

template void Matmul(CpuContext&, const Product<float>&);
template void Matmul(CpuContext&, const Product<double>&);
template void MatmulOnThisThread(const Product<float>&, float*);
template void MatmulOnThisThread(const Product<double>&, double*);

std::string MatmulDispatchName() { return HasAvx512() ? "avx512" : "avx2"; }

}  // namespace capstan::kernels
