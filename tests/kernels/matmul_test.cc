#include "kernels/matmul.h"

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

TEMPLATE_TEST_CASE("a product is right for odd sizes, strides, transposes, alpha, beta and bias", "[kernels][matmul]",
                   float, double) {
  using Real = TestType;
  CpuContext context(1);
  for (const Case& c : kCases) {
    CAPTURE(c.m, c.n, c.k);
    Arrays<Real> x(c);
    const std::vector<double> expected = Expected(c, x);
    const std::vector<Real> before = x.out;
    Matmul(context, x.Make(c));
    const double bound = std::is_same_v<Real, float> ? 1e-6 : 2e-15;
    CHECK(Agree<Real>("matrix product: C",
                      RelativeDistance(Columns(c, x.out, x.c_stride), Columns(c, expected, x.c_stride)), bound));
    int touched = 0;
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = c.n; j < x.c_stride; ++j) {
        const auto at = static_cast<std::size_t>(i * x.c_stride + j);
        touched += std::isnan(before[at]) ? !std::isnan(x.out[at]) : before[at] != x.out[at];
      }
    }
    CHECK(touched == 0);
    if (c.activation != Activation::kNone) {
      std::vector<Real> activated = Columns(c, x.out, x.c_stride);
      for (Real& v : activated) v = c.activation == Activation::kRelu ? ReluOf(v) : GeluOf(v);
      CHECK(Columns(c, x.activated, x.c_stride) == activated);
    }
  }
}

TEMPLATE_TEST_CASE("an element has the same bits for any number of threads and any cut", "[kernels][matmul]", float,
                   double) {
  using Real = TestType;
  const Case c{600, 515, 600, Transpose::kNo, Transpose::kYes, 1.5, 0, true};
  Arrays<Real> whole(c);
  CpuContext one(1);
  Matmul(one, whole.Make(c));
  const std::vector<Real> expected = Columns(c, whole.out, whole.c_stride);
  for (const int threads : {2, 3}) {
    CpuContext context(threads);
    Arrays<Real> x(c);
    Matmul(context, x.Make(c));
    CHECK(Columns(c, x.out, x.c_stride) == expected);
  }
  Arrays<Real> x(c);
  std::vector<Real> scratch(kMatmulScratch<Real>);
  for (std::int64_t row = 0; row < c.m; row += 7) {  // seven rows at a time
    Product<Real> part = x.Make(c);
    part.m = std::min<std::int64_t>(7, c.m - row);
    part.a.data += row * x.a_stride;
    part.c += row * x.c_stride;
    MatmulOnThisThread(part, scratch.data());
  }
  CHECK(Columns(c, x.out, x.c_stride) == expected);
}

TEMPLATE_TEST_CASE("AVX2 and AVX-512 give the same bits", "[kernels][matmul]", float, double) {
  using Real = TestType;
  if (MatmulDispatchName() == "avx2") {
    testing::ComparedWithNothing("products by AVX2 and by AVX-512", "this machine has no AVX-512");
    return;
  }
  std::vector<Real> scratch(kMatmulScratch<Real>);
  for (const Case& c : kCases) {
    Arrays<Real> x(c), y(c);
    ProductAvx2(x.Make(c), scratch.data());
    ProductAvx512(y.Make(c), scratch.data());
    CHECK(Columns(c, x.out, x.c_stride) == Columns(c, y.out, y.c_stride));
  }
}

TEST_CASE("NaN and infinity go through a product", "[kernels][matmul]") {
  CpuContext context(1);
  const std::vector<float> a = {1, INFINITY, 2, NAN}, b = {1, 0, 0, 1};
  std::vector<float> c(4);
  Matmul(context,
         Product<float>{.m = 2, .n = 2, .k = 2, .a = {a.data(), 2}, .b = {b.data(), 2}, .c = c.data(), .c_stride = 2});
  CHECK(std::isnan(c[0]));
  CHECK(std::isinf(c[1]));
  CHECK(std::isnan(c[3]));
}

}  // namespace
}  // namespace capstan::kernels
