// Batch norm against its definition and finite differences.
#include "kernels/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Case {
  std::int64_t rows, channels;
  Activation activation;
  bool residual;
};

const std::vector<Case> kCases = {{2, 1, Activation::kNone, false},   {15, 17, Activation::kRelu, true},
                                  {33, 31, Activation::kRelu, false}, {257, 3, Activation::kNone, true},
                                  {129, 1, Activation::kRelu, true},  {5000, 33, Activation::kRelu, true}};

// Returns numbers around 3 that vary more in some channels than in others, so that it shows if a mean is not
// subtracted.
template <class Real>
std::vector<Real> Inputs(const Case& c) {
  auto x = RandomNumbers<Real>(c.rows * c.channels, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] * static_cast<Real>(1 + i % static_cast<std::size_t>(c.channels)) + Real(3);
  }
  return x;
}

template <class Real>
struct Run {
  Run(CpuContext& context, const Case& c, const std::vector<Real>& inputs)
      : x(inputs),
        gamma(RandomNumbers<Real>(c.channels, 2)),
        beta(RandomNumbers<Real>(c.channels, 3)),
        residual(RandomNumbers<Real>(c.rows * c.channels, 4)),
        y(Poison<Real>(c.rows * c.channels)),
        mean(Poison<Real>(c.channels)),
        inverse(Poison<Real>(c.channels)),
        mean_average(RandomNumbers<Real>(c.channels, 5)),
        variance_average(RandomNumbers<Real>(c.channels, 6)),
        dy(RandomNumbers<Real>(c.rows * c.channels, 7)),
        dx(Poison<Real>(c.rows * c.channels)),
        dgamma(Poison<Real>(c.channels)),
        dbeta(Poison<Real>(c.channels)) {
    BatchNorm(context, Args(c));
    BatchNormBackward(context, BatchNormGradient<Real>{.rows = c.rows,
                                                       .channels = c.channels,
                                                       .x = x.data(),
                                                       .mean = mean.data(),
                                                       .inverse_deviation = inverse.data(),
                                                       .gamma = gamma.data(),
                                                       .activation = c.activation,
                                                       .y = y.data(),
                                                       .dy = dy.data(),
                                                       .dx = dx.data(),
                                                       .gamma_gradient = dgamma.data(),
                                                       .beta_gradient = dbeta.data()});
  }

  BatchNormArgs<Real> Args(const Case& c) {
    return {.rows = c.rows,
            .channels = c.channels,
            .x = x.data(),
            .gamma = gamma.data(),
            .beta = beta.data(),
            .residual = c.residual ? residual.data() : nullptr,
            .activation = c.activation,
            .y = y.data(),
            .mean = mean.data(),
            .inverse_deviation = inverse.data(),
            .mean_average = mean_average.data(),
            .variance_average = variance_average.data(),
            .share = Real(0.25),
            .average_beta = Real(2)};
  }

  std::vector<Real> x, gamma, beta, residual, y, mean, inverse, mean_average, variance_average;
  std::vector<Real> dy, dx, dgamma, dbeta;
};

struct Moments {
  std::vector<double> mean, variance;
};

template <class Real>
Moments MomentsOf(const Case& c, const std::vector<Real>& x) {
  const auto channels = static_cast<std::size_t>(c.channels);
  const auto rows = static_cast<double>(c.rows);
  Moments m{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < x.size(); ++i) m.mean[i % channels] += static_cast<double>(x[i]) / rows;
  for (std::size_t i = 0; i < x.size(); ++i) {
    m.variance[i % channels] += std::pow(static_cast<double>(x[i]) - m.mean[i % channels], 2) / rows;
  }
  return m;
}

template <class Real>
std::vector<double> Expected(const Case& c, const Run<Real>& run, const Moments& m) {
  const auto channels = static_cast<std::size_t>(c.channels);
  std::vector<double> y(run.x.begin(), run.x.end());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t j = i % channels;
    y[i] = (y[i] - m.mean[j]) / std::sqrt(m.variance[j] + 1e-5) * static_cast<double>(run.gamma[j]) +
           static_cast<double>(run.beta[j]) + (c.residual ? static_cast<double>(run.residual[i]) : 0);
    if (c.activation == Activation::kRelu) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

TEMPLATE_TEST_CASE("batch norm is its definition, and adds to averages of mean and unbiased variance",
                   "[kernels][batch_norm]", float, double) {
  using Real = TestType;
  const double bound = std::is_same_v<Real, float> ? 2e-6 : 1e-13;
  CpuContext context(2);
  for (const Case& c : kCases) {
    const Run<Real> ours(context, c, Inputs<Real>(c));
    const Moments m = MomentsOf(c, ours.x);
    CAPTURE(c.rows, c.channels);
    CHECK(Agree<Real>("batch norm: y", RelativeDistance(ours.y, Expected(c, ours, m)), bound));
    const auto old_mean = RandomNumbers<Real>(c.channels, 5), old_variance = RandomNumbers<Real>(c.channels, 6);
    std::vector<double> mean(m.mean), variance(m.variance), inverse(m.variance);
    const double unbiased = static_cast<double>(c.rows) / static_cast<double>(c.rows - 1);
    for (std::size_t j = 0; j < mean.size(); ++j) {
      inverse[j] = 1 / std::sqrt(variance[j] + 1e-5);
      mean[j] = 2 * static_cast<double>(old_mean[j]) + 0.25 * mean[j];
      variance[j] = 2 * static_cast<double>(old_variance[j]) + 0.25 * unbiased * variance[j];
    }
    CHECK(Agree<Real>("batch norm: mean", RelativeDistance(ours.mean, m.mean), bound));
    CHECK(Agree<Real>("batch norm: inverse deviation", RelativeDistance(ours.inverse, inverse), bound));
    CHECK(Agree<Real>("batch norm: average of the mean", RelativeDistance(ours.mean_average, mean), bound));
    CHECK(Agree<Real>("batch norm: average of the variance", RelativeDistance(ours.variance_average, variance), bound));
  }
}

TEST_CASE("batch norm's gradients agree with finite differences", "[kernels][batch_norm]") {
  CpuContext context(1);
  for (const Case& c : kCases) {
    if (c.rows * c.channels > 2000) continue;
    const Run<double> ours(context, c, Inputs<double>(c));
    const auto dy = RandomNumbers<double>(c.rows * c.channels, 7);
    // All inputs in one vector: x, gamma, beta, residual.
    const auto size = static_cast<std::size_t>(c.rows * c.channels), channels = static_cast<std::size_t>(c.channels);
    std::vector<double> all = ours.x;
    for (const auto* part : {&ours.gamma, &ours.beta, &ours.residual})
      all.insert(all.end(), part->begin(), part->end());
    const auto loss = [&](const std::vector<double>& v) {
      Run<double> run = ours;
      const auto cut = [&](std::size_t first, std::size_t count) {
        return std::vector<double>(v.begin() + static_cast<std::ptrdiff_t>(first),
                                   v.begin() + static_cast<std::ptrdiff_t>(first + count));
      };
      run.x = cut(0, size);
      run.gamma = cut(size, channels);
      run.beta = cut(size + channels, channels);
      run.residual = cut(size + 2 * channels, size);
      return DotOf(Expected(c, run, MomentsOf(c, run.x)), dy);
    };
    std::vector<double> gradient = ours.dx;
    gradient.insert(gradient.end(), ours.dgamma.begin(), ours.dgamma.end());
    gradient.insert(gradient.end(), ours.dbeta.begin(), ours.dbeta.end());
    if (c.residual) gradient.insert(gradient.end(), ours.dy.begin(), ours.dy.end());
    if (!c.residual) gradient.resize(all.size());
    CAPTURE(c.rows, c.channels);
    CHECK(Agree<double>("batch norm: all gradients (differences)",
                        RelativeDistance(gradient, NumericGradient(all, loss)), 1e-6));
  }
}

TEST_CASE("one, two and three threads normalise to the same bits", "[kernels][batch_norm]") {
  CpuContext one(1), two(2), three(3);
  for (const Case& c : kCases) {
    const Run<float> expected(one, c, Inputs<float>(c));
    for (CpuContext* context : {&two, &three}) {
      const Run<float> ours(*context, c, Inputs<float>(c));
      CHECK(ours.y == expected.y);
      CHECK(ours.variance_average == expected.variance_average);
      CHECK(ours.dy == expected.dy);
      CHECK(ours.dx == expected.dx);
      CHECK(ours.dgamma == expected.dgamma);
      CHECK(ours.dbeta == expected.dbeta);
    }
  }
}

TEST_CASE("dx may lie where dy does, and parameters' gradients are added to old ones", "[kernels][batch_norm]") {
  CpuContext context(1);
  for (const Case& c : kCases) {
    const Run<double> ours(context, c, Inputs<double>(c));
    auto dy = RandomNumbers<double>(c.rows * c.channels, 7);
    std::vector<double> dgamma = ours.dgamma, dbeta = ours.dbeta;
    BatchNormBackward(context, BatchNormGradient<double>{.rows = c.rows,
                                                         .channels = c.channels,
                                                         .x = ours.x.data(),
                                                         .mean = ours.mean.data(),
                                                         .inverse_deviation = ours.inverse.data(),
                                                         .gamma = ours.gamma.data(),
                                                         .activation = c.activation,
                                                         .y = ours.y.data(),
                                                         .dy = dy.data(),
                                                         .dx = dy.data(),
                                                         .gamma_gradient = dgamma.data(),
                                                         .beta_gradient = dbeta.data(),
                                                         .parameter_beta = 2});
    CHECK(dy == ours.dx);
    for (std::size_t j = 0; j < dgamma.size(); ++j) {
      CHECK(dgamma[j] == 3 * ours.dgamma[j]);
      CHECK(dbeta[j] == 3 * ours.dbeta[j]);
    }
  }
}

TEST_CASE("evaluation uses the statistics it is given", "[kernels][batch_norm]") {
  CpuContext context(2);
  for (const Case& c : kCases) {
    Run<double> run(context, c, Inputs<double>(c));
    const Moments given{RandomNumbers<double>(c.channels, 8), std::vector<double>(run.mean.size(), 1.7)};
    const std::vector<double> mean_before = run.mean, average_before = run.mean_average;
    run.y = Poison<double>(c.rows * c.channels);
    BatchNormEvaluate(context, run.Args(c), given.mean.data(), given.variance.data());
    CHECK(Agree<double>("batch norm: y by given statistics", RelativeDistance(run.y, Expected(c, run, given)), 1e-13));
    CHECK(run.mean == mean_before);
    CHECK(run.mean_average == average_before);
  }
}

TEST_CASE("a single row has no variance, and one of a constant channel no infinite deviation",
          "[kernels][batch_norm]") {
  CpuContext context(1);
  const Case c{1, 5, Activation::kNone, false};
  const Run<float> ours(context, c, Inputs<float>(c));
  CHECK(ours.y == ours.beta);
  CHECK(ours.dx == std::vector<float>(5, 0));
  for (std::size_t j = 0; j < 5; ++j) CHECK(ours.variance_average[j] == 2 * RandomNumbers<float>(5, 6)[j]);
}

}  // namespace
}  // namespace capstan::kernels
