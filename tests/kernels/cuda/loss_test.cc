// The loss on a device against the CPU in double, on the same logits.
#include <cmath>
#include <limits>

#include "kernels/softmax_cross_entropy.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

struct Shape {
  std::int64_t rows, classes, stride;
  std::int64_t offset = 0;
};

template <class T>
struct Loss {
  LossResult result;
  std::vector<T> logits;
};

template <class T>
Loss<T> OnDevice(Shape s, const std::vector<T>& logits, const std::vector<std::int32_t>& targets) {
  Device device;
  DeviceArray<T> device_logits(device, logits, s.offset);
  DeviceArray<std::int32_t> device_targets(device, targets);
  const CudaContext::Memory result = device.context().Allocate(sizeof(LossResult));
  auto* const device_result = static_cast<LossResult*>(result.get());
  SoftmaxCrossEntropy(device.context(), SoftmaxCrossEntropyArgs<T>{.rows = s.rows,
                                                                   .classes = s.classes,
                                                                   .stride = s.stride,
                                                                   .logits = device_logits.get(),
                                                                   .targets = device_targets.get(),
                                                                   .gradient_scale = 0.75F,
                                                                   .result = device_result});
  return {device.context().Read(device_result), device_logits.Read()};
}

Loss<double> InDouble(Shape s, std::vector<double> logits, const std::vector<std::int32_t>& targets) {
  CpuContext cpu(1);
  LossResult result;
  SoftmaxCrossEntropy(cpu, SoftmaxCrossEntropyArgs<double>{.rows = s.rows,
                                                           .classes = s.classes,
                                                           .stride = s.stride,
                                                           .logits = logits.data(),
                                                           .targets = targets.data(),
                                                           .gradient_scale = 0.75,
                                                           .result = &result});
  return {result, std::move(logits)};
}

// Returns logits from -4 to 4; the elements between the rows are NaN.
template <class T>
std::vector<T> Logits(Shape s) {
  std::vector<T> logits = Poison<T>(s.rows * s.stride);
  const auto values = RandomNumbers<T>(s.rows * s.classes, 2);
  for (std::int64_t i = 0; i < s.rows * s.classes; ++i) {
    const auto at = static_cast<std::size_t>(i / s.classes * s.stride + i % s.classes);
    logits[at] = Narrow<T>(4 * Widen(values[static_cast<std::size_t>(i)]));
  }
  return logits;
}

// Returns the rows without the elements between them.
template <class T>
std::vector<T> Rows(Shape s, const std::vector<T>& logits) {
  std::vector<T> rows;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const auto begin = logits.begin() + row * s.stride;
    rows.insert(rows.end(), begin, begin + s.classes);
  }
  return rows;
}

TEMPLATE_TEST_CASE("the loss on a device is that of double, its gradient rounded", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  for (const Shape s : std::vector<Shape>{{1, 2, 2},
                                          {15, 17, 17},
                                          {33, 31, 40},
                                          {257, 10, 16},
                                          {70, 257, 264},
                                          {256, 384, 384},
                                          {31, 384, 384, 1},
                                          {9, 1024, 1024},
                                          {5, 1025, 1032},
                                          {1100, 33, 33},
                                          {3, 50257, 50304},
                                          {3, 50304, 50304}}) {
    CAPTURE(s.rows, s.classes, s.stride, s.offset);
    const auto targets = RandomIndices(s.rows, static_cast<std::int32_t>(s.classes), 1);
    const auto logits = Logits<T>(s);
    const auto ours = OnDevice(s, logits, targets), again = OnDevice(s, logits, targets);
    CHECK(ours.result.loss == again.result.loss);
    CHECK(SameBits(ours.logits, again.logits));
    const auto wide = InDouble(s, Doubles(logits), targets);
    CHECK(Agree<T>("loss", std::fabs(ours.result.loss / wide.result.loss - 1), 1e-6));
    CHECK(ours.result.correct == wide.result.correct);
    CHECK(Agree<T>("loss: gradient of the logits", RelativeDistance(Rows(s, ours.logits), Rows(s, wide.logits)),
                   kRounded<T>));
    std::vector<T> between = ours.logits;  // must be unchanged
    for (std::size_t i = 0; i < between.size(); ++i) {
      if (static_cast<std::int64_t>(i) % s.stride < s.classes) between[i] = logits[i];
    }
    CHECK(SameBits(between, logits));
  }
}

TEST_CASE("a loss on a device is finite for huge logits and for some of -infinity, NaN for NaN", "[cuda]") {
  const Shape pair{1, 2, 2};
  CHECK(OnDevice<float>(pair, {1e30F, -1e30F}, {0}).result.loss == 0);
  CHECK(std::isnan(OnDevice<float>(pair, {NAN, 1}, {1}).result.loss));
  for (const std::int64_t classes : {40, 2000}) {
    std::vector<float> logits(static_cast<std::size_t>(classes), -std::numeric_limits<float>::infinity());
    logits[1] = 3;
    const auto masked = OnDevice<float>({1, classes, classes}, logits, {1});
    CHECK(masked.result.loss == 0);
    CHECK(masked.result.correct == 1);
    CHECK(masked.logits == std::vector<float>(logits.size(), 0));
  }
}

}  // namespace
}  // namespace capstan::kernels
