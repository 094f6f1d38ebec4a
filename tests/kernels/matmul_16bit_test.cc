// Products of 16-bit numbers against products of the same numbers in long double and in float.
#include <cmath>
#include <vector>

#include "kernels/activation_math.h"
#include "kernels/matmul_simd.h"
#include "tests/catch.h"
#include "tests/compared_with_nothing.h"
#include "tests/kernels/parity.h"
#include "tests/kernels/product_cases.h"

namespace capstan::kernels {
namespace {

template <class Out>
constexpr double kBound = std::is_same_v<Out, float> ? 1e-6 : kRounded<Out>;
template <class Out>
constexpr const char* kC = std::is_same_v<Out, float> ? "matrix product: C in fp32" : "matrix product: C";
template <class Out>
constexpr const char* kActivated =
    std::is_same_v<Out, float> ? "matrix product: activated in fp32" : "matrix product: activated";

// Whether the elements between the rows of C are unchanged.
template <class T>
bool SameBetweenRows(const Case& c, std::int64_t stride, const std::vector<T>& x, const std::vector<T>& y) {
  for (std::int64_t i = 0; i < c.m; ++i) {
    const std::size_t at = static_cast<std::size_t>(i * stride + c.n), count = static_cast<std::size_t>(stride - c.n);
    if (std::memcmp(&x[at], &y[at], count * sizeof(T)) != 0) return false;
  }
  return true;
}

template <class T, class Out>
void CheckCases() {
  for (const Case& c : kCases) {
    CAPTURE(c.m, c.n, c.k);
    std::vector<float> scratch = Poison<float>(kMatmulScratch<T>);
    Arrays<T, Out> x(c);
    std::vector<double> expected = Expected(c, x);
    const std::vector<Out> before = x.out;
    MatmulOnThisThread(x.Make(c), scratch.data());
    CHECK(Agree<T>(kC<Out>, RelativeDistance(Columns(c, x.out, x.c_stride), Columns(c, expected, x.c_stride)),
                   kBound<Out>));
    CHECK(SameBetweenRows(c, x.c_stride, x.out, before));
    if (c.activation == Activation::kNone) continue;
    for (double& v : expected) v = c.activation == Activation::kRelu ? ReluOf(v) : GeluOf(v);
    CHECK(Agree<T>(kActivated<Out>,
                   RelativeDistance(Columns(c, x.activated, x.c_stride), Columns(c, expected, x.c_stride)),
                   kBound<Out>));
  }
}

TEST_CASE("a product of 16-bit numbers is right to one rounding, and to float when C is float", "[kernels][16bit]") {
  CheckCases<Bf16, Bf16>();
  CheckCases<Bf16, float>();
  CheckCases<Half, Half>();
  CheckCases<Half, float>();
}

template <class T, class Out>
void CheckCuts() {
  const Case c{701, 515, 1100, Transpose::kNo, Transpose::kYes, 1.5, 0.5, true};
  CpuContext one(1);
  Arrays<T, Out> whole(c);
  Matmul(one, whole.Make(c));
  const std::vector<Out> expected = Columns(c, whole.out, whole.c_stride);
  for (const int threads : {2, 3}) {
    CpuContext context(threads);
    Arrays<T, Out> x(c);
    Matmul(context, x.Make(c));
    CHECK(SameBits(Columns(c, x.out, x.c_stride), expected));
  }
  Arrays<T, Out> x(c);
  std::vector<float> scratch(kMatmulScratch<T>);
  for (std::int64_t row = 0; row < c.m; row += 13) {
    for (std::int64_t column = 0; column < c.n; column += 67) {
      Product<T, Out> part = x.Make(c);
      part.m = std::min<std::int64_t>(13, c.m - row);
      part.n = std::min<std::int64_t>(67, c.n - column);
      part.a.data += row * x.a_stride;
      part.b.data += column * x.b_stride;
      part.bias += column;
      part.c += row * x.c_stride + column;
      MatmulOnThisThread(part, scratch.data());
    }
  }
  CHECK(SameBits(Columns(c, x.out, x.c_stride), expected));
}

TEST_CASE("an element of a 16-bit product has the same bits for any number of threads and any cut",
          "[kernels][16bit]") {
  CheckCuts<Bf16, Bf16>();
  CheckCuts<Bf16, float>();
  CheckCuts<Half, Half>();
  CheckCuts<Half, float>();
}

std::vector<float> Floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }

TEMPLATE_TEST_CASE("16-bit numbers that are widened give the bits of float", "[kernels][16bit]", Bf16, Half) {
  using T = TestType;
  std::vector<float> scratch(kMatmulTileScratch);
  const bool has_avx512 = MatmulDispatchName() != "avx2";
  if (!has_avx512) {
    testing::ComparedWithNothing("products of widened 16-bit numbers by AVX-512", "this machine has no AVX-512");
  }
  for (const Case& c : kCases) {
    CAPTURE(c.m, c.n, c.k);
    Arrays<T, float> x(c), y(c);
    Arrays<float> wide(c);
    wide.a = Floats(Doubles(x.a));
    wide.b = Floats(Doubles(x.b));
    wide.bias = Floats(Doubles(x.bias));
    ProductAvx2(wide.Make(c), scratch.data());
    const std::vector<float> expected = Columns(c, wide.out, wide.c_stride);
    ProductAvx2(x.Make(c), scratch.data());
    CHECK(SameBits(Columns(c, x.out, x.c_stride), expected));
    if (!has_avx512) continue;
    ProductAvx512(y.Make(c), scratch.data());
    CHECK(SameBits(Columns(c, y.out, y.c_stride), expected));
  }
}

TEST_CASE("products of pairs of Bf16 are right, and their bits do not see the cut", "[kernels][16bit]") {
  if (!__builtin_cpu_supports("avx512bf16")) {
    testing::ComparedWithNothing("products of pairs of Bf16", "this machine has no AVX512-BF16");
    return;
  }
  for (const Case& c : kCases) {
    CAPTURE(c.m, c.n, c.k);
    std::vector<float> scratch = Poison<float>(kMatmulTileScratch);
    Arrays<Bf16, float> x(c), y(c);
    const std::vector<double> expected = Expected(c, x);
    ProductAvx512Bf16(x.Make(c), scratch.data());
    CHECK(Agree<Bf16>("matrix product by pairs: C in fp32",
                      RelativeDistance(Columns(c, x.out, x.c_stride), Columns(c, expected, x.c_stride)), 1e-6));
    for (std::int64_t row = 0; row < c.m; ++row) {
      Product<Bf16, float> part = y.Make(c);
      part.m = 1;
      part.a.data += c.a == Transpose::kYes ? row : row * y.a_stride;
      part.c += row * y.c_stride;
      ProductAvx512Bf16(part, scratch.data());
    }
    CHECK(SameBits(Columns(c, x.out, x.c_stride), Columns(c, y.out, y.c_stride)));
  }
}

}  // namespace
}  // namespace capstan::kernels
