// Compiled with AVX-512 and its Bf16 products; called only if the processor has both. As matmul_avx512.cc, this file
// must not instantiate inline functions or templates that other files use too.
#include "kernels/matmul_simd.h"
#include "kernels/matmul_tile.h"

namespace capstan::kernels {
namespace {

// Fma adds two products to a lane's sum at once: those of two numbers that are consecutive in k.
struct Avx512Pairs {
  using Vec = __m512;
  static constexpr int kWidth = 16, kVectors = 2, kRows = 14;
  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec Broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
};

}  // namespace

void ProductAvx512Bf16(const Product<Bf16, float>& product, float* scratch) {
  TileProduct<Avx512Pairs, PairReader>(product, scratch);
}

}  // namespace capstan::kernels
