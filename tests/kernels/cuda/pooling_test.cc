// Pooling on a device: the results must have the CPU's bits, and be close to results in double.
#include "kernels/pooling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/divisor.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

const std::vector<ImageWindows> kCases = {
    {1, 1, 1, 1, 1, 1, 1, 0},   {2, 28, 28, 15, 2, 2, 2, 0}, {3, 15, 17, 31, 3, 3, 2, 1},
    {2, 7, 5, 257, 3, 2, 1, 1}, {2, 9, 33, 1, 2, 3, 4, 0},  // some pixels in no window
    {17, 3, 3, 33, 3, 3, 1, 2}, {2, 31, 33, 64, 3, 3, 2, 1}, {3, 8, 8, 24, 2, 2, 2, 0},
};

std::int64_t InputCount(const ImageWindows& w) { return w.samples * w.image_elements(); }
std::int64_t OutputCount(const ImageWindows& w) { return w.samples * w.out_pixels() * w.channels; }

// Returns random numbers of which many are equal, so that a window may have several maxima.
template <class T>
std::vector<T> Steps(std::int64_t count) {
  std::vector<T> steps;
  for (const float v : RandomNumbers<float>(count, 1)) steps.push_back(Narrow<T>(std::round(v * 3) / 4 + 0.125F));
  return steps;
}

template <class T>
struct Pooled {
  std::vector<T> y;
  std::vector<std::int32_t> argmax;
  std::vector<T> dx, mean, mean_dx, global, global_dx;
};

template <class T>
Pooled<T> OnCpu(const ImageWindows& w, const std::vector<T>& x, const std::vector<T>& dy) {
  CpuContext cpu(1);
  const std::int64_t in = InputCount(w), out = OutputCount(w), pixels = w.height * w.width;
  Pooled<T> r{Poison<T>(out), std::vector<std::int32_t>(dy.size(), -1), Poison<T>(in), Poison<T>(out),
              Poison<T>(in),  Poison<T>(w.samples * w.channels),        Poison<T>(in)};
  MaxPool(cpu, w, x.data(), r.y.data(), r.argmax.data());
  MaxPoolBackward(cpu, w, dy.data(), r.argmax.data(), r.dx.data());
  AveragePool(cpu, w, x.data(), r.mean.data());
  AveragePoolBackward(cpu, w, dy.data(), r.mean_dx.data());
  GlobalAverage(cpu, w.samples, pixels, w.channels, x.data(), r.global.data());
  GlobalAverageBackward(cpu, w.samples, pixels, w.channels, dy.data(), r.global_dx.data());
  return r;
}

template <class T>
Pooled<T> OnDevice(const ImageWindows& w, const std::vector<T>& x, const std::vector<T>& dy, std::int64_t offset) {
  Device device;
  CudaContext& context = device.context();
  const std::int64_t in = InputCount(w), out = OutputCount(w), pixels = w.height * w.width;
  DeviceArray<T> dev_x(device, x, offset), dev_dy(device, dy, offset), y(device, out, offset), dx(device, in, offset),
      mean(device, out, offset), mean_dx(device, in, offset), global(device, w.samples * w.channels, offset),
      global_dx(device, in, offset);
  DeviceArray<std::int32_t> argmax(device, out, offset);
  MaxPool(context, w, dev_x.get(), y.get(), argmax.get());
  MaxPoolBackward(context, w, dev_dy.get(), argmax.get(), dx.get());
  AveragePool(context, w, dev_x.get(), mean.get());
  AveragePoolBackward(context, w, dev_dy.get(), mean_dx.get());
  GlobalAverage(context, w.samples, pixels, w.channels, dev_x.get(), global.get());
  GlobalAverageBackward(context, w.samples, pixels, w.channels, dev_dy.get(), global_dx.get());
  return {y.Read(), argmax.Read(), dx.Read(), mean.Read(), mean_dx.Read(), global.Read(), global_dx.Read()};
}

TEMPLATE_TEST_CASE("pooling on a device has the bits of the CPU's", "[cuda][pooling]", float, Bf16, Half) {
  using T = TestType;
  for (const ImageWindows& w : kCases) {
    for (const std::int64_t offset : {0, 1}) {
      CAPTURE(w.height, w.width, w.channels, w.stride, w.padding, offset);
      // dy has as many elements as the larger of the passes that read it needs: GlobalAverageBackward, or those of
      // windows.
      const auto x = Steps<T>(InputCount(w));
      const auto dy = RandomNumbers<T>(std::max(OutputCount(w), w.samples * w.channels), 2);
      const Pooled<T> ours = OnDevice(w, x, dy, offset), same = OnCpu(w, x, dy);
      const Pooled<double> wide = OnCpu(w, Doubles(x), Doubles(dy));
      CHECK(Doubles(ours.y) == wide.y);
      CHECK(ours.argmax == wide.argmax);
      CHECK(Agree<T>("max pooling: dx", RelativeDistance(ours.dx, wide.dx), kRounded<T>));
      CHECK(Agree<T>("average pooling: y", RelativeDistance(ours.mean, wide.mean), kRounded<T>));
      CHECK(Agree<T>("average pooling: dx", RelativeDistance(ours.mean_dx, wide.mean_dx), kRounded<T>));
      CHECK(Agree<T>("average of an image: y", RelativeDistance(ours.global, wide.global), kRounded<T>));
      CHECK(Agree<T>("average of an image: dx", RelativeDistance(ours.global_dx, wide.global_dx), kRounded<T>));
      CHECK(SameBits(ours.dx, same.dx));
      CHECK(SameBits(ours.mean, same.mean));
      CHECK(SameBits(ours.mean_dx, same.mean_dx));
      CHECK(SameBits(ours.global, same.global));
      CHECK(SameBits(ours.global_dx, same.global_dx));
    }
  }
}

TEST_CASE("on a device, too, NaN is the largest of its window", "[cuda][pooling]") {
  const ImageWindows w{1, 2, 2, 4, 2, 2, 1, 0};
  for (std::size_t at = 0; at < 4; ++at) {
    std::vector<float> x;
    for (const float v : {1.0F, 4.0F, 2.0F, 3.0F}) x.insert(x.end(), 4, v);
    x[at * 4] = x[at * 4 + 3] = NAN;
    const Pooled<float> ours = OnDevice(w, x, std::vector<float>(4, 1.5F), 0);
    CHECK(std::isnan(ours.y[0]));
    CHECK(ours.y[1] == 4);
    CHECK(ours.argmax == std::vector<std::int32_t>{static_cast<std::int32_t>(at), 1, 1, static_cast<std::int32_t>(at)});
  }
}

TEST_CASE("a Divisor divides as the language does", "[cuda][divisor]") {
  std::vector<int> numbers = {0, 1, 2, 3, 6, 7, 127, 128, 129, 65535, 65536, INT32_MAX - 1, INT32_MAX};
  for (const std::int32_t number : RandomIndices(300, INT32_MAX, 1)) numbers.push_back(number);
  for (const int by : numbers) {
    if (by == 0) continue;
    const Divisor divisor(by);
    int wrong = 0;
    for (const int number : numbers) {
      int rest = -1;
      if (divisor.Divide(number) != number / by || divisor.Divide(number, &rest) != number / by) ++wrong;
      if (rest != number % by) ++wrong;
    }
    CAPTURE(by);
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace capstan::kernels
