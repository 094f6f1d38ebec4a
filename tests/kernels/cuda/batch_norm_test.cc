// Batch norm on a device against the CPU in double, on the same inputs.
#include "kernels/batch_norm.h"

#include <vector>

#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Case {
  std::int64_t rows, channels;
  Activation activation;
  bool residual;
  std::int64_t offset = 0;  // in front of each array
};

const std::vector<Case> kCases = {{5, 1, Activation::kNone, false},     {15, 17, Activation::kRelu, true},
                                  {33, 31, Activation::kRelu, false},   {257, 3, Activation::kNone, true},
                                  {31, 8, Activation::kRelu, true},     {31, 8, Activation::kRelu, true, 1},
                                  {1000, 72, Activation::kRelu, true},   // whole tiles, and a part of one
                                  {45000, 8, Activation::kNone, false},  // several rows per thread
                                  {530, 264, Activation::kRelu, false},  // many tiles next to each other
                                  {5000, 33, Activation::kRelu, true}};

// Returns numbers around 3 that vary more in some channels than in others, so that it shows if a mean is not
// subtracted.
template <class T>
std::vector<T> Inputs(const Case& c) {
  auto x = RandomNumbers<float>(c.rows * c.channels, 1);
  std::vector<T> inputs(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    inputs[i] = Narrow<T>(x[i] * static_cast<float>(1 + i % static_cast<std::size_t>(c.channels) % 7) + 3);
  }
  return inputs;
}

// The inputs of the forward pass, the backward pass and the evaluation.
template <class T>
struct Given {
  explicit Given(const Case& c)
      : x(Inputs<T>(c)),
        gamma(RandomNumbers<T>(c.channels, 2)),
        beta(RandomNumbers<T>(c.channels, 3)),
        residual(RandomNumbers<T>(c.rows * c.channels, 4)),
        mean_average(RandomNumbers<float>(c.channels, 5)),
        variance_average(RandomNumbers<float>(c.channels, 6)),
        dy(RandomNumbers<T>(c.rows * c.channels, 7)),
        given_mean(RandomNumbers<float>(c.channels, 8)),
        given_variance(RandomNumbers<float>(c.channels, 9)) {
    for (float& variance : given_variance) variance = 1.5F + variance;
  }
  std::vector<T> x, gamma, beta, residual;
  std::vector<float> mean_average, variance_average;
  std::vector<T> dy;
  std::vector<float> given_mean, given_variance;
};

template <class T, class Context>
void RunForward(Context& context, const Case& c, const T* x, const T* gamma, const T* beta, const T* residual, T* y,
                Wide<T>* mean, Wide<T>* inverse, Wide<T>* mean_average, Wide<T>* variance_average,
                const Wide<T>* given_mean, const Wide<T>* given_variance, T* evaluated) {
  BatchNormArgs<T> args{.rows = c.rows,
                        .channels = c.channels,
                        .x = x,
                        .gamma = gamma,
                        .beta = beta,
                        .residual = c.residual ? residual : nullptr,
                        .activation = c.activation,
                        .y = y,
                        .mean = mean,
                        .inverse_deviation = inverse,
                        .mean_average = mean_average,
                        .variance_average = variance_average,
                        .share = Wide<T>(0.25),
                        .average_beta = Wide<T>(2)};
  BatchNorm(context, args);
  args.y = evaluated;
  BatchNormEvaluate(context, args, given_mean, given_variance);
}

template <class T, class Context>
void RunBackward(Context& context, const Case& c, const T* x, const Wide<T>* mean, const Wide<T>* inverse,
                 const T* gamma, const T* y, T* dy, T* dx, Wide<T>* dgamma, Wide<T>* dbeta, Wide<T> parameter_beta) {
  BatchNormBackward(context, BatchNormGradient<T>{.rows = c.rows,
                                                  .channels = c.channels,
                                                  .x = x,
                                                  .mean = mean,
                                                  .inverse_deviation = inverse,
                                                  .gamma = gamma,
                                                  .activation = c.activation,
                                                  .y = y,
                                                  .dy = dy,
                                                  .dx = dx,
                                                  .gamma_gradient = dgamma,
                                                  .beta_gradient = dbeta,
                                                  .parameter_beta = parameter_beta});
}

template <class T>
struct Results {
  std::vector<T> y, evaluated;
  std::vector<Wide<T>> mean, inverse, mean_average, variance_average;
  std::vector<T> dy, dx;
  std::vector<Wide<T>> dgamma, dbeta;
};

template <class T>
Results<T> OnDevice(const Case& c, const Given<T>& in) {
  Device device;
  const std::int64_t count = c.rows * c.channels;
  DeviceArray<T> x(device, in.x, c.offset), gamma(device, in.gamma, c.offset), beta(device, in.beta, c.offset),
      residual(device, in.residual, c.offset), dy(device, in.dy, c.offset);
  DeviceArray<T> y(device, count, c.offset), evaluated(device, count, c.offset), dx(device, count, c.offset);
  DeviceArray<float> mean(device, c.channels, c.offset), inverse(device, c.channels, c.offset),
      dgamma(device, c.channels, c.offset), dbeta(device, c.channels, c.offset);
  DeviceArray<float> mean_average(device, in.mean_average, c.offset),
      variance_average(device, in.variance_average, c.offset), given_mean(device, in.given_mean, c.offset),
      given_variance(device, in.given_variance, c.offset);
  RunForward(device.context(), c, x.get(), gamma.get(), beta.get(), residual.get(), y.get(), mean.get(), inverse.get(),
             mean_average.get(), variance_average.get(), given_mean.get(), given_variance.get(), evaluated.get());
  RunBackward(device.context(), c, x.get(), mean.get(), inverse.get(), gamma.get(), y.get(), dy.get(), dx.get(),
              dgamma.get(), dbeta.get(), 0.0F);
  return {y.Read(),  evaluated.Read(), mean.Read(),   inverse.Read(), mean_average.Read(), variance_average.Read(),
          dy.Read(), dx.Read(),        dgamma.Read(), dbeta.Read()};
}

// Runs both passes on the CPU in double. The backward pass gets the device's y, mean and deviation, so that differences
// of the forward pass do not affect its comparison.
template <class T>
Results<double> InDouble(const Case& c, const Given<T>& in, const Results<T>& ours) {
  CpuContext cpu(1);
  const std::int64_t count = c.rows * c.channels;
  Results<double> r{Poison<double>(count),
                    Poison<double>(count),
                    Poison<double>(c.channels),
                    Poison<double>(c.channels),
                    Doubles(in.mean_average),
                    Doubles(in.variance_average),
                    Doubles(in.dy),
                    Poison<double>(count),
                    Poison<double>(c.channels),
                    Poison<double>(c.channels)};
  const auto x = Doubles(in.x), gamma = Doubles(in.gamma);
  RunForward(cpu, c, x.data(), gamma.data(), Doubles(in.beta).data(), Doubles(in.residual).data(), r.y.data(),
             r.mean.data(), r.inverse.data(), r.mean_average.data(), r.variance_average.data(),
             Doubles(in.given_mean).data(), Doubles(in.given_variance).data(), r.evaluated.data());
  RunBackward(cpu, c, x.data(), Doubles(ours.mean).data(), Doubles(ours.inverse).data(), gamma.data(),
              Doubles(ours.y).data(), r.dy.data(), r.dx.data(), r.dgamma.data(), r.dbeta.data(), 0.0);
  return r;
}

TEMPLATE_TEST_CASE("batch norm on a device", "[cuda][batch_norm]", float, Bf16, Half) {
  using T = TestType;
  for (const Case& c : kCases) {
    CAPTURE(c.rows, c.channels, c.offset);
    const Given<T> in(c);
    const Results<T> ours = OnDevice(c, in), again = OnDevice(c, in);
    const Results<double> wide = InDouble(c, in, ours);
    const double sums = 1e-5, rounded = std::is_same_v<T, float> ? 2e-6 : kRounded<T>;
    CHECK(Agree<T>("batch norm: y", RelativeDistance(ours.y, wide.y), rounded));
    CHECK(Agree<T>("batch norm: y by given statistics", RelativeDistance(ours.evaluated, wide.evaluated), rounded));
    CHECK(Agree<T>("batch norm: mean", RelativeDistance(ours.mean, wide.mean), sums));
    CHECK(Agree<T>("batch norm: inverse deviation", RelativeDistance(ours.inverse, wide.inverse), sums));
    CHECK(Agree<T>("batch norm: average of the mean", RelativeDistance(ours.mean_average, wide.mean_average), sums));
    CHECK(Agree<T>("batch norm: average of the variance",
                   RelativeDistance(ours.variance_average, wide.variance_average), sums));
    CHECK(Agree<T>("batch norm: dx", RelativeDistance(ours.dx, wide.dx), rounded));
    CHECK(Agree<T>("batch norm: dgamma", RelativeDistance(ours.dgamma, wide.dgamma), sums));
    CHECK(Agree<T>("batch norm: dbeta", RelativeDistance(ours.dbeta, wide.dbeta), sums));
    CHECK(Doubles(ours.dy) == wide.dy);
    CHECK(SameBits(ours.y, again.y));
    CHECK(SameBits(ours.inverse, again.inverse));
    CHECK(SameBits(ours.dx, again.dx));
    CHECK(SameBits(ours.dgamma, again.dgamma));
  }
}

TEMPLATE_TEST_CASE("on a device, too, dx may lie where dy does and parameters' gradients are added to old ones",
                   "[cuda][batch_norm]", float, Bf16) {
  using T = TestType;
  for (const Case& c : kCases) {
    CAPTURE(c.rows, c.channels, c.offset);
    const Given<T> in(c);
    const Results<T> ours = OnDevice(c, in);
    Device device;
    DeviceArray<T> x(device, in.x), gamma(device, in.gamma), y(device, ours.y), dy(device, in.dy);
    DeviceArray<float> mean(device, ours.mean), inverse(device, ours.inverse), dgamma(device, in.mean_average),
        dbeta(device, in.given_mean);
    RunBackward(device.context(), c, x.get(), mean.get(), inverse.get(), gamma.get(), y.get(), dy.get(), dy.get(),
                dgamma.get(), dbeta.get(), 2.0F);
    std::vector<float> expected_dgamma = ours.dgamma, expected_dbeta = ours.dbeta;
    for (std::size_t j = 0; j < expected_dgamma.size(); ++j) {
      expected_dgamma[j] += 2 * in.mean_average[j];
      expected_dbeta[j] += 2 * in.given_mean[j];
    }
    if (c.offset == 0) CHECK(SameBits(dy.Read(), ours.dx));
    CHECK(Agree<T>("batch norm: dgamma, added", RelativeDistance(dgamma.Read(), expected_dgamma), 1e-5));
    CHECK(Agree<T>("batch norm: dbeta, added", RelativeDistance(dbeta.Read(), expected_dbeta), 1e-5));
  }
}

TEST_CASE("on a device, too, a single row has no variance", "[cuda][batch_norm]") {
  const Case c{1, 5, Activation::kNone, false};
  const Given<float> in(c);
  const Results<float> ours = OnDevice(c, in);
  CHECK(ours.y == in.beta);
  CHECK(ours.dx == std::vector<float>(5, 0));
  for (std::size_t j = 0; j < 5; ++j) CHECK(ours.variance_average[j] == 2 * in.variance_average[j]);
}

TEST_CASE("on a device, too, a mean far from zero costs the variance no digits", "[cuda][batch_norm]") {
  const Case c{5000, 24, Activation::kNone, false};
  Given<float> in(c);
  for (float& x : in.x) x += 1000;
  const Results<float> ours = OnDevice(c, in);
  const Results<double> wide = InDouble(c, in, ours);
  CHECK(
      Agree<float>("batch norm: inverse deviation, far from zero", RelativeDistance(ours.inverse, wide.inverse), 1e-5));
}

}  // namespace
}  // namespace capstan::kernels
