// Compiled with AVX-512; called only if the processor has it. This file must not instantiate inline functions or
// templates that other files use too: the linker could give them the AVX-512 code.
#include "kernels/matmul_simd.h"
#include "kernels/matmul_tile.h"

namespace capstan::kernels {
namespace {

struct Avx512Float {
  using Vec = __m512;
  static constexpr int kWidth = 16, kVectors = 2, kRows = 12;
  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec Broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
};

struct Avx512Double {
  using Vec = __m512d;
  static constexpr int kWidth = 8, kVectors = 2, kRows = 12;
  static Vec Zero() { return _mm512_setzero_pd(); }
  static Vec Load(const double* p) { return _mm512_loadu_pd(p); }
  static void Store(double* p, Vec v) { _mm512_storeu_pd(p, v); }
  static Vec Broadcast(double x) { return _mm512_set1_pd(x); }
  static Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
  static Vec Mul(Vec a, Vec b) { return _mm512_mul_pd(a, b); }
  static Vec Add(Vec a, Vec b) { return _mm512_add_pd(a, b); }
};

}  // namespace

void ProductAvx512(const Product<float>& product, float* scratch) {
  TileProduct<Avx512Float, FloatReader>(product, scratch);
}
void ProductAvx512(const Product<double>& product, double* scratch) {
  TileProduct<Avx512Double, DoubleReader>(product, scratch);
}
void ProductAvx512(const Product<Bf16, float>& product, float* scratch) {
  TileProduct<Avx512Float, Bf16Reader>(product, scratch);
}
void ProductAvx512(const Product<Half, float>& product, float* scratch) {
  TileProduct<Avx512Float, HalfReader>(product, scratch);
}

}  // namespace capstan::kernels
