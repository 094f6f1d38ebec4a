// Convolution, batch norm and pooling of 16-bit numbers, against the same operations in double on the same numbers.
#include <vector>

#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/pooling.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

const std::vector<Conv2dShape> kConvolutions = {{{2, 15, 17, 3, 3, 3, 1, 1}, 31},
                                                {{3, 9, 8, 33, 1, 1, 2, 0}, 15},
                                                {{3, 5, 7, 17, 1, 1, 1, 0}, 33},
                                                {{2, 24, 23, 65, 3, 3, 2, 1}, 100}};

template <class T>
struct Convolved {
  Convolved(CpuContext& context, const Conv2dShape& s, const std::vector<T>& x, const std::vector<T>& filter,
            const std::vector<T>& dy, const std::vector<T>& old)
      : y(Poison<T>(static_cast<std::int64_t>(dy.size()))),
        dx(old),
        dfilter(Poison<Wide<T>>(static_cast<std::int64_t>(filter.size()))) {
    Conv2d(context, Conv2dArgs<T>{.shape = s, .x = x.data(), .filter = filter.data(), .y = y.data()});
    Conv2dInputBackward(context,
                        Conv2dInputGradient<T>{
                            .shape = s, .filter = filter.data(), .dy = dy.data(), .dx = dx.data(), .beta = Wide<T>(1)});
    Conv2dFilterBackward(context, Conv2dFilterGradient<T>{
                                      .shape = s, .x = x.data(), .dy = dy.data(), .filter_gradient = dfilter.data()});
  }
  std::vector<T> y, dx;
  std::vector<Wide<T>> dfilter;
};

TEMPLATE_TEST_CASE("a convolution of 16-bit numbers is that of double", "[kernels][conv2d][16bit]", Bf16, Half) {
  using T = TestType;
  CpuContext one(1), two(2);
  for (const Conv2dShape& s : kConvolutions) {
    const ImageWindows& w = s.windows;
    const auto x = RandomNumbers<T>(w.samples * w.image_elements(), 1), old = RandomNumbers<T>(x.size(), 4);
    const auto filter = RandomNumbers<T>(s.filters * w.window_elements(), 2);
    const auto dy = RandomNumbers<T>(w.samples * w.out_pixels() * s.filters, 3);
    const Convolved<T> ours(one, s, x, filter, dy, old), again(two, s, x, filter, dy, old);
    const Convolved<double> wide(one, s, Doubles(x), Doubles(filter), Doubles(dy), Doubles(old));
    CHECK(Agree<T>("convolution: y", RelativeDistance(Doubles(ours.y), wide.y), kRounded<T>));
    CHECK(Agree<T>("convolution: dx", RelativeDistance(Doubles(ours.dx), wide.dx), kRounded<T>));
    CHECK(Agree<T>("convolution: dfilter", RelativeDistance(Doubles(ours.dfilter), wide.dfilter),
                   1e-5));  // never rounded to 16 bits
    CHECK(SameBits(ours.y, again.y));
    CHECK(SameBits(ours.dx, again.dx));
    CHECK(SameBits(ours.dfilter, again.dfilter));
  }
}

template <class T>
struct Normed {
  Normed(CpuContext& context, std::int64_t rows, std::int64_t channels, const std::vector<T>& in,
         const std::vector<T>& gamma, const std::vector<T>& beta, const std::vector<T>& residual,
         const std::vector<T>& gradient)
      : y(Poison<T>(rows * channels)),
        dy(gradient),
        dx(Poison<T>(rows * channels)),
        evaluated(y),
        mean(Poison<Wide<T>>(channels)),
        inverse(mean),
        mean_average(mean),
        variance_average(mean),
        dgamma(mean),
        dbeta(mean) {
    BatchNormArgs<T> args{.rows = rows,
                          .channels = channels,
                          .x = in.data(),
                          .gamma = gamma.data(),
                          .beta = beta.data(),
                          .residual = residual.data(),
                          .y = y.data(),
                          .mean = mean.data(),
                          .inverse_deviation = inverse.data(),
                          .mean_average = mean_average.data(),
                          .variance_average = variance_average.data()};
    BatchNorm(context, args);
    BatchNormBackward(context, BatchNormGradient<T>{.rows = rows,
                                                    .channels = channels,
                                                    .x = in.data(),
                                                    .mean = mean.data(),
                                                    .inverse_deviation = inverse.data(),
                                                    .gamma = gamma.data(),
                                                    .dy = dy.data(),
                                                    .dx = dx.data(),
                                                    .gamma_gradient = dgamma.data(),
                                                    .beta_gradient = dbeta.data()});
    args.y = evaluated.data();
    const std::vector<Wide<T>> means(static_cast<std::size_t>(channels), Wide<T>(0.25));
    const std::vector<Wide<T>> variances(static_cast<std::size_t>(channels), Wide<T>(0.3));
    BatchNormEvaluate(context, args, means.data(), variances.data());
  }
  std::vector<T> y, dy, dx, evaluated;
  std::vector<Wide<T>> mean, inverse, mean_average, variance_average, dgamma, dbeta;
};

TEMPLATE_TEST_CASE("batch norm of 16-bit numbers is that of double, its statistics in float",
                   "[kernels][batch_norm][16bit]", Bf16, Half) {
  using T = TestType;
  CpuContext one(1), two(2);
  for (const auto& [rows, channels] : {std::pair<std::int64_t, std::int64_t>{15, 17}, {257, 31}, {1000, 1}}) {
    const auto x = RandomNumbers<T>(rows * channels, 1), residual = RandomNumbers<T>(rows * channels, 4);
    const auto gamma = RandomNumbers<T>(channels, 2), beta = RandomNumbers<T>(channels, 3);
    const auto dy = RandomNumbers<T>(rows * channels, 5);
    const Normed<T> ours(one, rows, channels, x, gamma, beta, residual, dy);
    const Normed<T> again(two, rows, channels, x, gamma, beta, residual, dy);
    const Normed<double> wide(one, rows, channels, Doubles(x), Doubles(gamma), Doubles(beta), Doubles(residual),
                              Doubles(dy));
    CHECK(Agree<T>("batch norm: y", RelativeDistance(Doubles(ours.y), wide.y), kRounded<T>));
    CHECK(Agree<T>("batch norm: dx", RelativeDistance(Doubles(ours.dx), wide.dx), kRounded<T>));
    CHECK(Agree<T>("batch norm: y by given statistics", RelativeDistance(Doubles(ours.evaluated), wide.evaluated),
                   kRounded<T>));
    CHECK(Agree<T>("batch norm: average of the variance",
                   RelativeDistance(Doubles(ours.variance_average), wide.variance_average), 1e-5));
    CHECK(Agree<T>("batch norm: dgamma", RelativeDistance(Doubles(ours.dgamma), wide.dgamma), 1e-4));
    CHECK(SameBits(ours.y, again.y));
    CHECK(SameBits(ours.dx, again.dx));
    CHECK(SameBits(ours.dgamma, again.dgamma));
  }
}

TEMPLATE_TEST_CASE("pooling of 16-bit numbers is that of double", "[kernels][pooling][16bit]", Bf16, Half) {
  using T = TestType;
  CpuContext context(2);
  const ImageWindows w{3, 15, 17, 31, 3, 3, 2, 1};
  const auto x = RandomNumbers<T>(w.samples * w.image_elements(), 1);
  const auto dy = RandomNumbers<T>(w.samples * w.out_pixels() * w.channels, 2);
  const auto pool = [&](const auto& in, const auto& gradient) {
    using N = typename std::decay_t<decltype(in)>::value_type;
    std::vector<std::vector<N>> results(4, Poison<N>(static_cast<std::int64_t>(in.size())));
    results[0] = results[2] = Poison<N>(static_cast<std::int64_t>(gradient.size()));
    std::vector<std::int32_t> argmax(gradient.size());
    MaxPool(context, w, in.data(), results[0].data(), argmax.data());
    MaxPoolBackward(context, w, gradient.data(), argmax.data(), results[1].data());
    AveragePool(context, w, in.data(), results[2].data());
    AveragePoolBackward(context, w, gradient.data(), results[3].data());
    return results;
  };
  const auto ours = pool(x, dy);
  const auto wide = pool(Doubles(x), Doubles(dy));
  CHECK(Doubles(ours[0]) == wide[0]);
  const char* const names[] = {"max pooling: y", "max pooling: dx", "average pooling: y", "average pooling: dx"};
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(Agree<T>(names[i], RelativeDistance(Doubles(ours[i]), wide[i]), kRounded<T>));
  }
}

}  // namespace
}  // namespace capstan::kernels
