// Compiled with AVX2 and FMA, which every machine that runs capstan has.
#include "kernels/matmul_simd.h"
#include "kernels/matmul_tile.h"

namespace capstan::kernels {
namespace {

struct Avx2Float {
  using Vec = __m256;
  static constexpr int kWidth = 8, kVectors = 2, kRows = 6;
  static Vec Zero() { return _mm256_setzero_ps(); }
  static Vec Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  static Vec Broadcast(float x) { return _mm256_set1_ps(x); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec Mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec Add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
};

struct Avx2Double {
  using Vec = __m256d;
  static constexpr int kWidth = 4, kVectors = 2, kRows = 6;
  static Vec Zero() { return _mm256_setzero_pd(); }
  static Vec Load(const double* p) { return _mm256_loadu_pd(p); }
  static void Store(double* p, Vec v) { _mm256_storeu_pd(p, v); }
  static Vec Broadcast(double x) { return _mm256_set1_pd(x); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
  static Vec Mul(Vec a, Vec b) { return _mm256_mul_pd(a, b); }
  static Vec Add(Vec a, Vec b) { return _mm256_add_pd(a, b); }
};

}  // namespace

void ProductAvx2(const Product<float>& product, float* scratch) {
  TileProduct<Avx2Float, FloatReader>(product, scratch);
}
void ProductAvx2(const Product<double>& product, double* scratch) {
  TileProduct<Avx2Double, DoubleReader>(product, scratch);
}
void ProductAvx2(const Product<Bf16, float>& product, float* scratch) {
  TileProduct<Avx2Float, Bf16Reader>(product, scratch);
}
void ProductAvx2(const Product<Half, float>& product, float* scratch) {
  TileProduct<Avx2Float, HalfReader>(product, scratch);
}

}  // namespace capstan::kernels
