// Products to test, with odd sizes, strides, transposes, alpha, beta and bias; and their expected results.
#pragma once

#include <vector>

#include "kernels/matmul.h"
#include "tests/kernels/numbers.h"

namespace capstan::kernels {

struct Case {
  std::int64_t m, n, k;
  Transpose a, b;
  double alpha = 1, beta = 0;
  bool bias = false;
  Activation activation = Activation::kNone;
};

// The arrays of one case. Rows are longer than necessary, so that strides matter.
template <class T, class Out = T>
struct Arrays {
  explicit Arrays(const Case& c)
      : a_stride((c.a == Transpose::kYes ? c.m : c.k) + 3),
        b_stride((c.b == Transpose::kYes ? c.k : c.n) + 5),
        c_stride(c.n + 7),
        a(RandomNumbers<T>((c.a == Transpose::kYes ? c.k : c.m) * a_stride, 1)),
        b(RandomNumbers<T>((c.b == Transpose::kYes ? c.n : c.k) * b_stride, 2)),
        bias(RandomNumbers<T>(c.n, 4)),
        out(c.beta == 0 ? Poison<Out>(c.m * c_stride) : RandomNumbers<Out>(c.m * c_stride, 3)),
        activated(Poison<Out>(c.m * c_stride)) {}

  Product<T, Out> Make(const Case& c) {
    return {.m = c.m,
            .n = c.n,
            .k = c.k,
            .a = {a.data(), a_stride, c.a},
            .b = {b.data(), b_stride, c.b},
            .c = out.data(),
            .c_stride = c_stride,
            .alpha = static_cast<Wide<T>>(c.alpha),
            .beta = static_cast<Wide<T>>(c.beta),
            .bias = c.bias ? bias.data() : nullptr,
            .activation = c.activation,
            .activated = c.activation == Activation::kNone ? nullptr : activated.data()};
  }

  std::int64_t a_stride, b_stride, c_stride;
  std::vector<T> a, b, bias;
  std::vector<Out> out, activated;
};

// Returns the expected C, with sums in long double. Elements between the rows are unchanged.
template <class T, class Out>
std::vector<double> Expected(const Case& c, const Arrays<T, Out>& x) {
  std::vector<double> out = Doubles(x.out);
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      long double sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const auto at = static_cast<std::size_t>(c.a == Transpose::kYes ? k * x.a_stride + i : i * x.a_stride + k);
        const auto bt = static_cast<std::size_t>(c.b == Transpose::kYes ? j * x.b_stride + k : k * x.b_stride + j);
        sum += static_cast<long double>(Widen(x.a[at])) * static_cast<long double>(Widen(x.b[bt]));
      }
      double& value = out[static_cast<std::size_t>(i * x.c_stride + j)];
      value = static_cast<double>(c.alpha * sum) + (c.beta == 0 ? 0 : c.beta * value) +
              (c.bias ? static_cast<double>(Widen(x.bias[static_cast<std::size_t>(j)])) : 0);
    }
  }
  return out;
}

// Returns the columns of C without the elements between the rows.
template <class Real>
std::vector<Real> Columns(const Case& c, const std::vector<Real>& out, std::int64_t stride) {
  std::vector<Real> values;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) values.push_back(out[static_cast<std::size_t>(i * stride + j)]);
  }
  return values;
}

inline const std::vector<Case> kCases = {
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

}  // namespace capstan::kernels
