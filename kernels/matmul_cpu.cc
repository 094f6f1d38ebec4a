#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/activation_math.h"
#include "kernels/matmul.h"
#include "kernels/matmul_simd.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRowsMin = 240, kTaskColumnsMin = 128;
constexpr std::int64_t kStripColumns = 32;
constexpr std::int64_t kCutRowsMax = 672;  // a multiple of every PanelRows

std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has;
}

// Whether AMX can be used. AMX's registers are large, so Linux lets a process use them only after a request.
bool HasAmx() {
  static const bool has = [] {
    constexpr unsigned kTileAndBf16 = 1U << 24 | 1U << 22;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    return HasAvx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTileAndBf16) == kTileAndBf16 &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

// Whether to use the instruction that multiplies pairs of Bf16. On Intel's processors it is slow, and widening the
// numbers for fused multiply-adds is faster there.
bool HasFastPairs() {
  static const bool has = HasAvx512() && __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel");
  return has;
}

// Returns a number of rows that fills whole tiles of the code that computes products of T.
template <class T>
std::int64_t PanelRows() {
  if (!std::is_same_v<T, Bf16>) return 12;
  return HasAmx() ? 32 : HasFastPairs() ? 14 : 12;
}

// Computes `product` except its activation.
template <class T>
void Dispatch(const Product<T, Wide<T>>& product, Wide<T>* scratch) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (HasAmx()) return ProductAmx(product, scratch);
    if (HasFastPairs()) return ProductAvx512Bf16(product, scratch);
  }
  if (HasAvx512()) {
    ProductAvx512(product, scratch);
  } else {
    ProductAvx2(product, scratch);
  }
}

template <class Real>
void Activate(Activation activation, std::int64_t count, const Real* in, Real* out) {
  if (activation == Activation::kRelu) {
    for (std::int64_t j = 0; j < count; ++j) out[j] = ReluOf(in[j]);
  } else {
    for (std::int64_t j = 0; j < count; ++j) out[j] = GeluOf(in[j]);
  }
}

// Returns the product for rows [row, row + rows) and columns [column, column + columns) of `whole`.
template <class T, class Out>
Product<T, Out> Part(const Product<T, Out>& whole, std::int64_t row, std::int64_t rows, std::int64_t column,
                     std::int64_t columns) {
  Product<T, Out> part = whole;
  part.m = rows;
  part.n = columns;
  part.a.data += whole.a.transpose == Transpose::kYes ? row : row * whole.a.stride;
  part.b.data += whole.b.transpose == Transpose::kYes ? column * whole.b.stride : column;
  part.c += row * whole.c_stride + column;
  if (whole.bias != nullptr) part.bias += column;
  if (whole.activated != nullptr) part.activated += row * whole.c_stride + column;
  return part;
}

// Computes a 16-bit C of at most kMatmulCutScratch elements. The sums are made in `scratch` and rounded at the end.
template <class T>
void RoundedProduct(const Product<T>& product, float* scratch) {
  float* sums = scratch + kMatmulTileScratch;
  const std::int64_t columns = product.n;
  if (product.beta != 0) {
    for (std::int64_t i = 0; i < product.m; ++i) {
      WideRow(product.c + i * product.c_stride, columns, sums + i * columns);
    }
  }
  Dispatch(Product<T, float>{.m = product.m,
                             .n = columns,
                             .k = product.k,
                             .a = product.a,
                             .b = product.b,
                             .c = sums,
                             .c_stride = columns,
                             .alpha = product.alpha,
                             .beta = product.beta,
                             .bias = product.bias},
           scratch);
  for (std::int64_t i = 0; i < product.m; ++i, sums += columns) {
    Round(sums, columns, product.c + i * product.c_stride);
    if (product.activation == Activation::kNone) continue;
    Activate(product.activation, columns, sums, sums);
    Round(sums, columns, product.activated + i * product.c_stride);
  }
}

}  // namespace

template <class T, class Out>
void MatmulOnThisThread(const Product<T, Out>& product, Wide<T>* scratch) {
  if constexpr (std::is_same_v<Out, Wide<T>>) {
    Dispatch(product, scratch);
    for (std::int64_t i = 0; product.activation != Activation::kNone && i < product.m; ++i) {
      const std::int64_t row = i * product.c_stride;
      Activate(product.activation, product.n, product.c + row, product.activated + row);
    }
  } else {
    // C is cut into parts of about equal size, whose sums fit into the scratch.
    const std::int64_t parts = (product.m + kCutRowsMax - 1) / kCutRowsMax;
    const std::int64_t rows = RoundUp((product.m + parts - 1) / parts, PanelRows<T>());
    const std::int64_t columns = kMatmulCutScratch / rows / kStripColumns * kStripColumns;
    for (std::int64_t row = 0; row < product.m; row += rows) {
      for (std::int64_t column = 0; column < product.n; column += columns) {
        RoundedProduct(
            Part(product, row, std::min(rows, product.m - row), column, std::min(columns, product.n - column)),
            scratch);
      }
    }
  }
}

template <class T, class Out>
void Matmul(CpuContext& context, const Product<T, Out>& product) {
  const int threads = context.threads();
  Wide<T>* scratch = context.Workspace<Wide<T>>(static_cast<std::size_t>(kMatmulScratch<T> * threads));
  if (threads == 1) return MatmulOnThisThread(product, scratch);
  // The cut of C into tasks does not change a bit, so it may depend on the number of threads. There are up to about
  // four tasks for each thread, and each task is whole tiles.
  const std::int64_t wanted = 4 * threads;
  const std::int64_t row_tasks = std::clamp<std::int64_t>(product.m / kTaskRowsMin, 1, wanted);
  const std::int64_t column_tasks =
      std::clamp<std::int64_t>(product.n / kTaskColumnsMin, 1, (wanted + row_tasks - 1) / row_tasks);
  const std::int64_t rows = RoundUp((product.m + row_tasks - 1) / row_tasks, PanelRows<T>());
  const std::int64_t columns = RoundUp((product.n + column_tasks - 1) / column_tasks, kStripColumns);
  context.ParallelFor(row_tasks * column_tasks, [&](std::int64_t index, int lane) {
    const std::int64_t row = index / column_tasks * rows, column = index % column_tasks * columns;
    if (row >= product.m || column >= product.n) return;
    MatmulOnThisThread(
        Part(product, row, std::min(rows, product.m - row), column, std::min(columns, product.n - column)),
        scratch + lane * kMatmulScratch<T>);
  });
}

template void Matmul(CpuContext&, const Product<float>&);
template void Matmul(CpuContext&, const Product<double>&);
template void Matmul(CpuContext&, const Product<Bf16>&);
template void Matmul(CpuContext&, const Product<Bf16, float>&);
template void Matmul(CpuContext&, const Product<Half>&);
template void Matmul(CpuContext&, const Product<Half, float>&);
template void MatmulOnThisThread(const Product<float>&, float*);
template void MatmulOnThisThread(const Product<double>&, double*);
template void MatmulOnThisThread(const Product<Bf16>&, float*);
template void MatmulOnThisThread(const Product<Bf16, float>&, float*);
template void MatmulOnThisThread(const Product<Half>&, float*);
template void MatmulOnThisThread(const Product<Half, float>&, float*);

std::string MatmulDispatchName() {
  return HasAmx() ? "amx-bf16" : HasFastPairs() ? "avx512-bf16" : HasAvx512() ? "avx512" : "avx2";
}

}  // namespace capstan::kernels
