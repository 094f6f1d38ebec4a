// Convolution and its gradients against plain loops; and each gradient as the adjoint of the convolution.
#include "kernels/conv2d.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/activation_math.h"
#include "kernels/im2col.h"
#include "tests/catch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Case {
  std::int64_t samples, height, width, channels, filters, window_height, window_width, stride, padding;
};

const std::vector<Case> kCases = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0},        // one product
    {3, 5, 7, 17, 33, 1, 1, 1, 0},      // one product
    {2, 15, 17, 3, 31, 3, 3, 1, 1},     // as most in a network
    {3, 17, 15, 5, 7, 3, 3, 2, 1},      // halves height and width
    {2, 9, 8, 33, 15, 1, 1, 2, 0},      // as the shortcut of a residual network
    {1, 31, 33, 1, 17, 7, 5, 2, 3},     // a window that is not square, wide padding
    {257, 4, 3, 2, 3, 3, 2, 1, 1},      // several images per task
    {2, 6, 5, 1, 1, 6, 5, 1, 0},        // one window per image
    {3, 4, 4, 2, 5, 3, 3, 3, 2},        // each pixel in one window
    {2, 24, 23, 130, 100, 3, 3, 1, 1},  // several blocks and chunks, tiles with rests
    {1, 6, 5, 114, 200, 3, 3, 1, 1},    // tiles of other sizes for two threads and for three
    {1, 3, 5, 3, 700, 3, 3, 2, 1}       // more filters than the largest tile has
};

Conv2dShape ShapeOf(const Case& c) {
  return {{.samples = c.samples,
           .height = c.height,
           .width = c.width,
           .channels = c.channels,
           .window_height = c.window_height,
           .window_width = c.window_width,
           .stride = c.stride,
           .padding = c.padding},
          c.filters};
}

std::int64_t InputCount(const Conv2dShape& s) { return s.windows.samples * s.windows.image_elements(); }
std::int64_t FilterCount(const Conv2dShape& s) { return s.filters * s.windows.window_elements(); }
std::int64_t OutputCount(const Conv2dShape& s) { return s.windows.samples * s.windows.out_pixels() * s.filters; }

// Calls visit(output, input, filter element) for every product that a convolution adds up.
template <class Visit>
void ForProducts(const Case& c, const Visit& visit) {
  const std::int64_t out_height = (c.height + 2 * c.padding - c.window_height) / c.stride + 1;
  const std::int64_t out_width = (c.width + 2 * c.padding - c.window_width) / c.stride + 1;
  std::size_t output = 0;
  for (std::int64_t n = 0; n < c.samples; ++n)
    for (std::int64_t p = 0; p < out_height; ++p)
      for (std::int64_t q = 0; q < out_width; ++q)
        for (std::int64_t k = 0; k < c.filters; ++k, ++output)
          for (std::int64_t r = 0; r < c.window_height; ++r)
            for (std::int64_t s = 0; s < c.window_width; ++s) {
              const std::int64_t y = p * c.stride + r - c.padding, x = q * c.stride + s - c.padding;
              if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
              for (std::int64_t ch = 0; ch < c.channels; ++ch) {
                visit(output, static_cast<std::size_t>(((n * c.height + y) * c.width + x) * c.channels + ch),
                      static_cast<std::size_t>(((k * c.window_height + r) * c.window_width + s) * c.channels + ch));
              }
            }
}

template <class Real>
struct Results {
  Results(CpuContext& context, const Conv2dShape& shape, Wide<Real> beta = 0)
      : x(RandomNumbers<Real>(InputCount(shape), 1)),
        filter(RandomNumbers<Real>(FilterCount(shape), 2)),
        dy(RandomNumbers<Real>(OutputCount(shape), 3)),
        y(Poison<Real>(OutputCount(shape))),
        dx(beta == Wide<Real>(0) ? Poison<Real>(InputCount(shape)) : RandomNumbers<Real>(InputCount(shape), 4)),
        dfilter(beta == Wide<Real>(0) ? Poison<Wide<Real>>(FilterCount(shape))
                                      : RandomNumbers<Wide<Real>>(FilterCount(shape), 5)) {
    Conv2d(context, Conv2dArgs<Real>{.shape = shape, .x = x.data(), .filter = filter.data(), .y = y.data()});
    Conv2dInputBackward(context,
                        Conv2dInputGradient<Real>{
                            .shape = shape, .filter = filter.data(), .dy = dy.data(), .dx = dx.data(), .beta = beta});
    Conv2dFilterBackward(
        context, Conv2dFilterGradient<Real>{
                     .shape = shape, .x = x.data(), .dy = dy.data(), .filter_gradient = dfilter.data(), .beta = beta});
  }
  std::vector<Real> x, filter, dy, y, dx;
  std::vector<Wide<Real>> dfilter;
};

TEMPLATE_TEST_CASE("a convolution says how much workspace it takes, for so many samples or fewer", "[kernels][conv2d]",
                   float, Bf16) {
  const Case wide = {8, 8, 8, 256, 32, 3, 3, 1, 1};  // 192 windows exceed kConvBlockElements
  std::vector<Case> cases = kCases;
  cases.push_back(wide);
  for (const int threads : {1, 3}) {
    for (const Case& c : cases) {
      const std::size_t said = Conv2dWorkspaceBytes<TestType>(CpuContext(threads), ShapeOf(c));
      CAPTURE(threads, c.samples, c.channels, c.filters);
      for (Case part = c; part.samples > 0; part.samples = part.samples * 2 / 3) {
        CpuContext context(threads);
        const Results<TestType> results(context, ShapeOf(part));
        CHECK(context.workspace_bytes() <= said);
        if (part.samples == c.samples) CHECK(context.workspace_bytes() > said * 3 / 4);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a convolution and its gradients are those of plain loops", "[kernels][conv2d]", float, double) {
  using Real = TestType;
  CpuContext context(1);
  for (const Case& c : kCases) {
    const Results<Real> ours(context, ShapeOf(c));
    std::vector<double> y(ours.y.size()), dx(ours.dx.size()), dfilter(ours.dfilter.size());
    ForProducts(c, [&](std::size_t output, std::size_t input, std::size_t element) {
      y[output] += static_cast<double>(ours.x[input]) * static_cast<double>(ours.filter[element]);
      dx[input] += static_cast<double>(ours.dy[output]) * static_cast<double>(ours.filter[element]);
      dfilter[element] += static_cast<double>(ours.dy[output]) * static_cast<double>(ours.x[input]);
    });
    CAPTURE(c.samples, c.height, c.width, c.channels, c.filters, c.window_height, c.stride);
    const double bound = std::is_same_v<Real, float> ? 1e-6 : 1e-14;
    CHECK(Agree<Real>("convolution: y", RelativeDistance(ours.y, y), bound));
    CHECK(Agree<Real>("convolution: dx", RelativeDistance(ours.dx, dx), bound));
    CHECK(Agree<Real>("convolution: dfilter", RelativeDistance(ours.dfilter, dfilter), bound));
  }
}

TEST_CASE("a convolution's gradients are its adjoints, and are added to old ones where asked", "[kernels][conv2d]") {
  CpuContext context(1);
  for (const Case& c : kCases) {
    const Conv2dShape shape = ShapeOf(c);
    const Results<double> fresh(context, shape), added(context, shape, 0.5);
    const double expected = DotOf(fresh.y, fresh.dy);
    CHECK(DotOf(fresh.dx, fresh.x) == Approx(expected).epsilon(1e-11));
    CHECK(DotOf(fresh.dfilter, fresh.filter) == Approx(expected).epsilon(1e-11));
    auto dx = RandomNumbers<double>(InputCount(shape), 4), dfilter = RandomNumbers<double>(FilterCount(shape), 5);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = 0.5 * dx[i] + fresh.dx[i];
    for (std::size_t i = 0; i < dfilter.size(); ++i) dfilter[i] = 0.5 * dfilter[i] + fresh.dfilter[i];
    CHECK(Agree<double>("convolution: dx, added", RelativeDistance(added.dx, dx), 1e-13));
    CHECK(Agree<double>("convolution: dfilter, added", RelativeDistance(added.dfilter, dfilter), 1e-13));
  }
}

TEST_CASE("one, two and three threads convolve to the same bits", "[kernels][conv2d]") {
  CpuContext one(1), two(2), three(3);
  for (const Case& c : kCases) {
    const Results<float> expected(one, ShapeOf(c));
    for (CpuContext* context : {&two, &three}) {
      const Results<float> ours(*context, ShapeOf(c));
      CHECK(ours.y == expected.y);
      CHECK(ours.dx == expected.dx);
      CHECK(ours.dfilter == expected.dfilter);
    }
  }
}

TEST_CASE("an image's convolution has the same bits beside other images", "[kernels][conv2d]") {
  CpuContext context(1);
  for (Case c : kCases) {
    const Results<float> all(context, ShapeOf(c));
    c.samples = 1;
    const Results<float> first(context, ShapeOf(c));
    CHECK(std::equal(first.y.begin(), first.y.end(), all.y.begin()));
    CHECK(std::equal(first.dx.begin(), first.dx.end(), all.dx.begin()));
  }
}

TEST_CASE("the filter's gradient has the order of one product over all windows", "[kernels][conv2d]") {
  CpuContext context(1);
  for (const Case& c : kCases) {
    const Conv2dShape shape = ShapeOf(c);
    const Results<float> ours(context, shape);
    const std::int64_t rows = c.samples * shape.windows.out_pixels(), depth = shape.windows.window_elements();
    auto columns = Poison<float>(rows * depth), expected = Poison<float>(FilterCount(shape));
    Im2Col(shape.windows, 0, rows, ours.x.data(), columns.data());
    Matmul(context, Product<float>{.m = c.filters,
                                   .n = depth,
                                   .k = rows,
                                   .a = {ours.dy.data(), c.filters, Transpose::kYes},
                                   .b = {columns.data(), depth},
                                   .c = expected.data(),
                                   .c_stride = depth});
    CHECK(ours.dfilter == expected);
  }
}

TEST_CASE("bias and ReLU are applied to each output", "[kernels][conv2d]") {
  CpuContext context(2);
  for (const Case& c : kCases) {
    const Conv2dShape shape = ShapeOf(c);
    const Results<float> plain(context, shape);
    const auto bias = RandomNumbers<float>(c.filters, 6);
    auto y = Poison<float>(OutputCount(shape)), expected = plain.y;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = ReluOf(expected[i] + bias[i % static_cast<std::size_t>(c.filters)]);
    }
    Conv2d(context, Conv2dArgs<float>{.shape = shape,
                                      .x = plain.x.data(),
                                      .filter = plain.filter.data(),
                                      .bias = bias.data(),
                                      .y = y.data(),
                                      .activation = Activation::kRelu});
    CHECK(y == expected);
  }
}

TEST_CASE("Im2Col and Col2Im of some rows are that part of all rows", "[kernels][im2col]") {
  for (const Case& c : kCases) {
    const ImageWindows windows = ShapeOf(c).windows;
    const std::int64_t pixels = windows.out_pixels(), rows = c.samples * pixels, depth = windows.window_elements();
    const auto x = RandomNumbers<double>(c.samples * windows.image_elements(), 1);
    const auto v = RandomNumbers<double>(rows * depth, 2);
    auto columns = Poison<double>(rows * depth);
    std::vector<double> image(x.size());
    for (std::int64_t first = 0; first < rows; first += 5) {
      const std::int64_t last = std::min(rows, first + 5);
      Im2Col(windows, first, last, x.data(), columns.data() + first * depth);
      Col2Im(windows, first, last, v.data() + first * depth, image.data() + first / pixels * windows.image_elements());
    }
    CHECK(DotOf(columns, v) == Approx(DotOf(x, image)).epsilon(1e-11));
    auto whole = Poison<double>(rows * depth);
    Im2Col(windows, 0, rows, x.data(), whole.data());
    CHECK(columns == whole);
  }
}

}  // namespace
}  // namespace capstan::kernels
