#include "kernels/matmul.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/activation_math.h"
#include "kernels/matmul_simd.h"
#include "tests/kernels/numbers.h"

namespace capstan::kernels {
namespace {

struct Case {
  std::int64_t m, n, k;
  Transpose a, b;
  double alpha = 1, beta = 0;
  bool bias = false;
  Activation activation = Activation::kNone;
};

// The arrays of one case: rows are longer than needed, so that strides matter.
template <class Real>
struct Arrays {
  explicit Arrays(const Case& c)
      : a_stride((c.a == Transpose::kYes ? c.m : c.k) + 3),
        b_stride((c.b == Transpose::kYes ? c.k : c.n) + 5),
        c_stride(c.n + 7),
        a(RandomNumbers<Real>((c.a == Transpose::kYes ? c.k : c.m) * a_stride, 1)),
        b(RandomNumbers<Real>((c.b == Transpose::kYes ? c.n : c.k) * b_stride, 2)),
        out(c.beta == 0 ? Poison<Real>(c.m * c_stride) : RandomNumbers<Real>(c.m * c_stride, 3)),
        activated(Poison<Real>(c.m * c_stride)),
        bias(RandomNumbers<Real>(c.n, 4)) {}

  Product<Real> Make(const Case& c) {
    return {.m = c.m,
            .n = c.n,
            .k = c.k,
            .a = {a.data(), a_stride, c.a},
            .b = {b.data(), b_stride, c.b},
            .c = out.data(),
            .c_stride = c_stride,
            .alpha = static_cast<Real>(c.alpha),
            .beta = static_cast<Real>(c.beta),
            .bias = c.bias ? bias.data() : nullptr,
            .activation = c.activation,
            .activated = c.activation == Activation::kNone ? nullptr : activated.data()};
  }

  std::int64_t a_stride, b_stride, c_stride;
  std::vector<Real> a, b, out, activated, bias;
};

// What C should be, in the widest type there is; elements between the rows stay.
template <class Real>
std::vector<double> Expected(const Case& c, const Arrays<Real>& x) {
  std::vector<double> out(x.out.begin(), x.out.end());
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      long double sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const auto at = static_cast<std::size_t>(c.a == Transpose::kYes ? k * x.a_stride + i : i * x.a_stride + k);
        const auto bt = static_cast<std::size_t>(c.b == Transpose::kYes ? j * x.b_stride + k : k * x.b_stride + j);
        sum += static_cast<long double>(x.a[at]) * static_cast<long double>(x.b[bt]);
      }
      double& value = out[static_cast<std::size_t>(i * x.c_stride + j)];
      value = static_cast<double>(c.alpha * sum) + (c.beta == 0 ? 0 : c.beta * value) +
              (c.bias ? static_cast<double>(x.bias[static_cast<std::size_t>(j)]) : 0);
    }
  }
  return out;
}

// Only the columns of C; the rest must be bitwise as before.
template <class Real>
std::vector<Real> Columns(const Case& c, const std::vector<Real>& out, std::int64_t stride) {
  std::vector<Real> values;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) values.push_back(out[static_cast<std::size_t>(i * stride + j)]);
  }
  return values;
}

const std::vector<Case> kCases = {
    {1, 1, 1, Transpose::kNo, Transpose::kNo},
    {1, 31, 17, Transpose::kNo, Transpose::kYes},
    {15, 1, 33, Transpose::kYes, Transpose::kNo, -0.5, 2},
    {12, 32, 256, Transpose::kNo, Transpose::kNo, 1, 1},
    {13, 33, 257, Transpose::kNo, Transpose::kYes, 2, 0.5, true},
    {31, 65, 515, Transpose::kYes, Transpose::kYes, 1, 1},
    {257, 100, 40, Transpose::kYes, Transpose::kNo, 1, 0, true, Activation::kRelu},
    {70, 257, 300, Transpose::kNo, Transpose::kYes, 1, 0, true, Activation::kGelu},
    {509, 40, 7, Transpose::kNo, Transpose::kNo, 0.25},
};

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
    CHECK(RelativeDistance(Columns(c, x.out, x.c_stride), Columns(c, expected, x.c_stride)) < bound);
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
  std::vector<Real> scratch(kMatmulScratch);
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
  if (MatmulDispatchName() != "avx512") {
    WARN("this machine has no AVX-512: nothing compared");
    return;
  }
  std::vector<Real> scratch(kMatmulScratch);
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
