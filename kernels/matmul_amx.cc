// Compiled with AVX-512 and AMX; called only if the processor has both and HasAmx got the system's permission. As
// matmul_avx512.cc, this file must not instantiate inline functions or templates that other files use too.
#include "kernels/matmul_simd.h"
#include "kernels/matmul_tile.h"

namespace capstan::kernels {
namespace {

// A register of AMX holds 16 rows of 64 bytes: 16 x 32 numbers of A, 16 pairs in k x 16 columns of B, or 16 x 16 sums.
// One step adds the products of 32 values of k to 32 x 32 sums, which fill four registers.
constexpr std::int64_t kTile = 16, kPanel = 2 * kTile, kStepDepth = 32;
constexpr std::int64_t kStepFloats = kPanel * kStepDepth / 2;  // a step's part of a panel or strip, as packed pairs

struct Strip {
  static constexpr int kWidth = kTile, kVectors = 2;
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};

constexpr std::int64_t StepsOf(std::int64_t depths) { return (depths + kStepDepth - 1) / kStepDepth; }

// Packs one step of a panel, [row][k], from an A that is stored as [row][k]. Missing rows and depths become zero.
void PackStep(const Bf16* in, std::int64_t stride, std::int64_t rows, std::int64_t depths, float* out) {
  if (rows >= kPanel && depths >= kStepDepth) {  // a copy of known size compiles to a load and a store
    for (std::int64_t r = 0; r < kPanel; ++r, in += stride, out += kTile) {
      __builtin_memcpy(out, in, kStepDepth * sizeof(Bf16));
    }
    return;
  }
  for (std::int64_t r = 0; r < kPanel; ++r, out += kTile) {
    const std::int64_t count = r < rows ? depths : 0;
    if (count < kStepDepth) __builtin_memset(out, 0, kStepDepth * sizeof(Bf16));
    __builtin_memcpy(out, in + (count > 0 ? r * stride : 0), static_cast<std::size_t>(count) * sizeof(Bf16));
  }
}

// As PackStep, for an A that is stored as [k][row].
void PackTransposedStep(const Bf16* in, std::int64_t stride, std::int64_t rows, std::int64_t depths, float* out) {
  float pairs[kStepFloats];
  if (rows < kPanel || depths < kStepDepth) __builtin_memset(pairs, 0, sizeof(pairs));
  PackRows<PairReader, kPanel>(in, stride, rows, depths, pairs);
  Interleave<FloatReader>(pairs, kPanel, kTile, kPanel, out, kTile);
}

void PackPanels(const Operand<Bf16>& a, std::int64_t row, std::int64_t rows, std::int64_t depth, std::int64_t depths,
                float* out) {
  for (std::int64_t r = 0; r < rows; r += kPanel) {
    const std::int64_t count = rows - r < kPanel ? rows - r : kPanel;
    for (std::int64_t k = 0; k < depths; k += kStepDepth, out += kStepFloats) {
      const std::int64_t here = depths - k < kStepDepth ? depths - k : kStepDepth;
      if (a.transpose == Transpose::kNo) {
        PackStep(a.data + (row + r) * a.stride + depth + k, a.stride, count, here, out);
      } else {
        PackTransposedStep(a.data + (depth + k) * a.stride + row + r, a.stride, count, here, out);
      }
    }
  }
}

// Computes sums [32][32] = panel * strip.
void TileSums(std::int64_t steps, const float* a, const float* b, float* sums) {
  constexpr int kPackedRow = 64, kStripRow = 128;  // in bytes
  asm volatile("" ::: "memory");                   // the compiler does not see that the instructions below read memory
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t step = 0; step < steps; ++step, a += kStepFloats, b += kStepFloats) {
    _tile_loadd(4, a, kPackedRow);
    _tile_loadd(6, b, kStripRow);
    _tile_loadd(7, b + kTile, kStripRow);
    _tile_loadd(5, a + kStepFloats / 2, kPackedRow);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kStripRow);
  _tile_stored(1, sums + kTile, kStripRow);
  _tile_stored(2, sums + kTile * kPanel, kStripRow);
  _tile_stored(3, sums + kTile * kPanel + kTile, kStripRow);
  asm volatile("" ::: "memory");
}

// Computes C = alpha * sums + beta * C + bias for a tile of rows x columns.
void AddSums(const float* sums, std::int64_t rows, std::int64_t columns, const TileTarget<float>& target) {
  const __m512 alpha = _mm512_set1_ps(target.alpha), beta = _mm512_set1_ps(target.beta);
  for (std::int64_t first = 0; first < columns; first += kTile) {
    const auto mask = static_cast<__mmask16>(columns - first < kTile ? (1 << (columns - first)) - 1 : 0xffff);
    const __m512 bias = target.bias != nullptr ? _mm512_loadu_ps(target.bias + first) : _mm512_setzero_ps();
    for (std::int64_t r = 0; r < rows; ++r) {
      float* c = target.c + r * target.stride + first;
      __m512 value = _mm512_mul_ps(alpha, _mm512_loadu_ps(sums + r * kPanel + first));
      if (target.beta != 0) value = _mm512_add_ps(_mm512_mul_ps(beta, _mm512_maskz_loadu_ps(mask, c)), value);
      if (target.bias != nullptr) value = _mm512_add_ps(value, bias);
      _mm512_mask_storeu_ps(c, mask, value);
    }
  }
}

}  // namespace

void ProductAmx(const Product<Bf16, float>& product, float* scratch) {
  constexpr std::int64_t kDepth = 2 * kMatmulDepth, kBlockRows = 672;
  const auto address = reinterpret_cast<std::uintptr_t>(scratch);
  float* strip = scratch + ((64 - address % 64) % 64) / sizeof(float);
  float* block = strip + kPanel * kMatmulDepth;
  alignas(64) float sums[kPanel * kPanel];
  const TileConfig config;
  _tile_loadconfig(&config);
  for (std::int64_t row = 0; row < product.m; row += kBlockRows) {
    const std::int64_t rows = product.m - row < kBlockRows ? product.m - row : kBlockRows;
    for (std::int64_t depth = 0; depth == 0 || depth < product.k; depth += kDepth) {
      const std::int64_t rest = product.k - depth;
      const std::int64_t depths = rest < kDepth ? rest : kDepth, steps = StepsOf(depths);
      const bool biased = rest <= kDepth && product.bias != nullptr;
      PackPanels(product.a, row, rows, depth, depths, block);
      for (std::int64_t column = 0; column < product.n; column += kPanel) {
        const std::int64_t columns = product.n - column < kPanel ? product.n - column : kPanel;
        PackB<Strip, PairReader>(product.b, column, columns, depth, depths, strip);
        for (std::int64_t i = PackedDepths<PairReader>(depths) * kPanel; i < steps * kStepFloats; ++i) strip[i] = 0;
        alignas(64) float bias[kPanel] = {};
        for (std::int64_t j = 0; biased && j < columns; ++j) bias[j] = WidenOne(product.bias[column + j]);
        for (std::int64_t r = 0; r < rows; r += kPanel) {
          TileSums(steps, block + r / kPanel * steps * kStepFloats, strip, sums);
          AddSums(sums, rows - r < kPanel ? rows - r : kPanel, columns,
                  {product.c + (row + r) * product.c_stride + column, product.c_stride, product.alpha,
                   depth == 0 ? product.beta : 1.0F, biased ? bias : nullptr});
        }
      }
    }
  }
  _tile_release();  // so that the system need not save these registers at thread switches
}

}  // namespace capstan::kernels
