// Pooling and its gradients against plain loops.
#include "kernels/pooling.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

const std::vector<ImageWindows> kCases = {
    {1, 1, 1, 1, 1, 1, 1, 0},   {2, 28, 28, 15, 2, 2, 2, 0}, {3, 15, 17, 31, 3, 3, 2, 1},
    {2, 7, 5, 257, 3, 2, 1, 1}, {2, 9, 33, 1, 2, 3, 4, 0},  // some pixels in no window
    {17, 3, 3, 33, 3, 3, 1, 2},
};

std::int64_t InputCount(const ImageWindows& w) { return w.samples * w.image_elements(); }
std::int64_t OutputCount(const ImageWindows& w) { return w.samples * w.out_pixels() * w.channels; }

// Calls visit(output, input, pixel) for every element of every window that is not padding. The pixels of a window come
// row by row.
template <class Visit>
void ForElements(const ImageWindows& w, const Visit& visit) {
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t p = 0; p < w.out_height(); ++p)
      for (std::int64_t q = 0; q < w.out_width(); ++q)
        for (std::int64_t r = 0; r < w.window_height; ++r)
          for (std::int64_t s = 0; s < w.window_width; ++s)
            for (std::int64_t c = 0; c < w.channels; ++c) {
              const std::int64_t y = p * w.stride + r - w.padding, x = q * w.stride + s - w.padding;
              if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
              visit(static_cast<std::size_t>(((n * w.out_height() + p) * w.out_width() + q) * w.channels + c),
                    static_cast<std::size_t>(((n * w.height + y) * w.width + x) * w.channels + c),
                    static_cast<std::int32_t>(y * w.width + x));
            }
}

// Returns random numbers of which many are equal, so that a window may have several maxima.
template <class Real>
std::vector<Real> Steps(std::int64_t count, std::uint64_t seed) {
  auto x = RandomNumbers<Real>(count, seed);
  for (Real& v : x) v = std::round(v * 3) / 3;
  return x;
}

template <class Real>
struct Pooled {
  Pooled(CpuContext& context, const ImageWindows& w, const std::vector<Real>& x)
      : y(Poison<Real>(OutputCount(w))),
        argmax(static_cast<std::size_t>(OutputCount(w)), -1),
        dx(Poison<Real>(InputCount(w))),
        mean(y),
        mean_dx(dx) {
    const auto dy = RandomNumbers<Real>(OutputCount(w), 2);
    MaxPool(context, w, x.data(), y.data(), argmax.data());
    MaxPoolBackward(context, w, dy.data(), argmax.data(), dx.data());
    AveragePool(context, w, x.data(), mean.data());
    AveragePoolBackward(context, w, dy.data(), mean_dx.data());
  }
  std::vector<Real> y;
  std::vector<std::int32_t> argmax;
  std::vector<Real> dx, mean, mean_dx;
};

TEMPLATE_TEST_CASE("pooling is that of plain loops, the first of equals wins", "[kernels][pooling]", float, double) {
  using Real = TestType;
  CpuContext context(2);
  for (const ImageWindows& w : kCases) {
    const auto x = Steps<Real>(InputCount(w), 1), dy = RandomNumbers<Real>(OutputCount(w), 2);
    const Pooled<Real> ours(context, w, x);
    std::vector<Real> y(ours.y.size(), -INFINITY);
    std::vector<std::int32_t> argmax(y.size(), -1);
    std::vector<std::size_t> from(y.size());
    std::vector<double> dx(x.size()), mean(y.size()), mean_dx(x.size());
    const auto size = static_cast<double>(w.window_height * w.window_width);
    ForElements(w, [&](std::size_t output, std::size_t input, std::int32_t pixel) {
      mean[output] += static_cast<double>(x[input]) / size;
      mean_dx[input] += static_cast<double>(dy[output]) / size;
      if (x[input] <= y[output]) return;
      y[output] = x[input];
      argmax[output] = pixel;
      from[output] = input;
    });
    for (std::size_t i = 0; i < y.size(); ++i) dx[from[i]] += static_cast<double>(dy[i]);
    CAPTURE(w.height, w.width, w.channels, w.stride, w.padding);
    const double bound = std::is_same_v<Real, float> ? 1e-6 : 1e-14;
    CHECK(ours.y == y);
    CHECK(ours.argmax == argmax);
    CHECK(Agree<Real>("max pooling: dx", RelativeDistance(ours.dx, dx), bound));
    CHECK(Agree<Real>("average pooling: y", RelativeDistance(ours.mean, mean), bound));
    CHECK(Agree<Real>("average pooling: dx", RelativeDistance(ours.mean_dx, mean_dx), bound));
  }
}

TEST_CASE("one and three threads pool to the same bits", "[kernels][pooling]") {
  CpuContext one(1), three(3);
  for (const ImageWindows& w : kCases) {
    const auto x = RandomNumbers<float>(InputCount(w), 3);
    const Pooled<float> a(one, w, x), b(three, w, x);
    CHECK(a.y == b.y);
    CHECK(a.dx == b.dx);
    CHECK(a.mean == b.mean);
    CHECK(a.mean_dx == b.mean_dx);
  }
}

TEST_CASE("NaN is the largest of its window", "[kernels][pooling]") {
  CpuContext context(1);
  const ImageWindows w{1, 2, 2, 1, 2, 2, 1, 0};
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<float> x = {1, 4, 2, 3};
    x[at] = NAN;
    const Pooled<float> ours(context, w, x);
    CHECK(std::isnan(ours.y[0]));
    CHECK(ours.argmax[0] == static_cast<std::int32_t>(at));
  }
}

TEST_CASE("the average of an image is one number a channel, and its gradient the adjoint", "[kernels][pooling]") {
  CpuContext one(1), two(2);
  for (const auto& [samples, pixels, channels] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1}, {3, 49, 257}, {17, 15, 31}}) {
    const auto x = RandomNumbers<double>(samples * pixels * channels, 1);
    const auto dy = RandomNumbers<double>(samples * channels, 2);
    std::vector<double> expected(dy.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto image = static_cast<std::size_t>(pixels * channels), width = static_cast<std::size_t>(channels);
      expected[i / image * width + i % width] += x[i] / static_cast<double>(pixels);
    }
    for (CpuContext* context : {&one, &two}) {
      auto y = Poison<double>(samples * channels), dx = Poison<double>(samples * pixels * channels);
      GlobalAverage(*context, samples, pixels, channels, x.data(), y.data());
      GlobalAverageBackward(*context, samples, pixels, channels, dy.data(), dx.data());
      CHECK(Agree<double>("average of an image: y", RelativeDistance(y, expected), 1e-14));
      CHECK(DotOf(dx, x) == Approx(DotOf(y, dy)).epsilon(1e-12));
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
