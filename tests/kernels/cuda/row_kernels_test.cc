// The row kernels on a device against the CPU in double, on the same inputs.
#include <cmath>
#include <iterator>

#include "kernels/axpby.h"
#include "kernels/bias_activation.h"
#include "kernels/cast.h"
#include "kernels/dropout.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

const std::int64_t kCounts[] = {0, 1, 7, 8, 15, 17, 31, 33, 257, 5003};

TEMPLATE_TEST_CASE("axpby on a device", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  CpuContext cpu(1);
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t offset : {0, 1}) {
      for (const float b : {0.0F, 0.25F}) {
        CAPTURE(count, offset, b);
        Device device;
        const auto x = RandomNumbers<T>(count, 1);
        const auto y = b == 0 ? Poison<T>(count) : RandomNumbers<T>(count, 2);
        DeviceArray<T> device_x(device, x, offset), device_y(device, y, offset);
        Axpby(device.context(), count, 0.7F, device_x.get(), b, device_y.get());
        std::vector<double> wide = Doubles(y);
        Axpby<double>(cpu, count, static_cast<double>(0.7F), Doubles(x).data(), static_cast<double>(b), wide.data());
        CHECK(Agree<T>("axpby: y", RelativeDistance(device_y.Read(), wide), kRounded<T>));
      }
    }
  }
}

TEMPLATE_TEST_CASE("dropout on a device drops what it drops on a CPU, bit for bit", "[cuda]", float, Bf16, Half) {
  using T = TestType;
  CpuContext cpu(1);
  const DropoutMask mask{.key = 0x123456789ABCDEF, .probability = 0.3};
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t offset : {0, 1}) {
      CAPTURE(count, offset);
      Device device;
      std::vector<T> x = RandomNumbers<T>(count, 1);
      DeviceArray<T> ours(device, x, offset), untouched(device, x, offset);
      Dropout(device.context(), mask, count, ours.get());
      Dropout(device.context(), {.key = 1, .probability = 0}, count, untouched.get());
      CHECK(SameBits(untouched.Read(), x));
      Dropout(cpu, mask, count, x.data());
      CHECK(SameBits(ours.Read(), x));
    }
  }
}

template <class From, class To>
void CheckCast(const std::vector<From>& from, std::int64_t offset) {
  CpuContext two(2);
  Device device;
  const auto count = static_cast<std::int64_t>(from.size());
  std::vector<To> expected = Poison<To>(count);
  Cast(two, count, from.data(), expected.data());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto wide = static_cast<float>(Widen(from[i]));
    REQUIRE(static_cast<double>(Widen(expected[i])) == static_cast<double>(Widen(Narrow<To>(wide))));
  }
  DeviceArray<From> device_from(device, from, offset);
  DeviceArray<To> device_to(device, count, offset);
  Cast(device.context(), count, device_from.get(), device_to.get());
  CHECK(SameBits(device_to.Read(), expected));
}

TEMPLATE_TEST_CASE("a cast rounds to nearest and back is exact, on a device and on a CPU", "[cuda]", Bf16, Half) {
  using T = TestType;
  for (const std::int64_t count : {0, 1, 7, 8, 15, 17, 31, 33, 257, 5003, 140001}) {
    for (const std::int64_t offset : {0, 1}) {
      CAPTURE(count, offset);
      auto wide = RandomNumbers<float>(count, 1);
      // Special values: the largest number, denormals, ties, infinity.
      const float special[] = {65504.0F, 65520.0F, 3.4e38F, 6e-8F, 2e-5F, 1e-40F, 1.00390625F, 1.01171875F, INFINITY};
      for (std::size_t i = 0; i < wide.size() && i < std::size(special); ++i) wide[i] = special[i];
      CheckCast<float, T>(wide, offset);
      CheckCast<T, float>(RandomNumbers<T>(count, 2), offset);
    }
  }
}

struct Shape {
  std::int64_t rows, columns;
  std::int64_t offset = 0;
};

template <class T>
struct BiasGradients {
  std::vector<T> dx;
  std::vector<Wide<T>> bias;
};

template <class T>
BiasGradients<T> BiasOnDevice(Shape s, Activation activation, const BiasGradients<T>& old, const std::vector<T>& x,
                              float beta) {
  Device device;
  DeviceArray<T> device_x(device, x, s.offset), dy(device, old.dx, s.offset);
  DeviceArray<float> bias(device, beta == 0 ? Poison<float>(s.columns) : old.bias, s.offset);
  BiasActivationBackward(device.context(),
                         BiasActivationGradient<T>{.rows = s.rows,
                                                   .columns = s.columns,
                                                   .activation = activation,
                                                   .x = activation == Activation::kNone ? nullptr : device_x.get(),
                                                   .dy = dy.get(),
                                                   .bias_gradient = bias.get(),
                                                   .beta = beta});
  return {dy.Read(), bias.Read()};
}

TEMPLATE_TEST_CASE("the backward pass through bias and activation on a device is that of double, rounded", "[cuda]",
                   float, Bf16, Half) {
  using T = TestType;
  CpuContext cpu(1);
  for (const Shape s : std::vector<Shape>{
           {1, 1}, {15, 17}, {33, 31}, {257, 33}, {70, 257}, {256, 384}, {65, 384, 1}, {2500, 8}, {63, 520}}) {
    const auto x = RandomNumbers<T>(s.rows * s.columns, 1);
    const BiasGradients<T> old{RandomNumbers<T>(s.rows * s.columns, 2), RandomNumbers<Wide<T>>(s.columns, 3)};
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      for (const float beta : {0.0F, 0.5F}) {
        CAPTURE(s.rows, s.columns, s.offset, static_cast<int>(activation), beta);
        const auto ours = BiasOnDevice(s, activation, old, x, beta), again = BiasOnDevice(s, activation, old, x, beta);
        CHECK(SameBits(ours.dx, again.dx));
        CHECK(SameBits(ours.bias, again.bias));
        BiasGradients<double> wide{Doubles(old.dx), Doubles(old.bias)};
        BiasActivationBackward(cpu, BiasActivationGradient<double>{.rows = s.rows,
                                                                   .columns = s.columns,
                                                                   .activation = activation,
                                                                   .x = Doubles(x).data(),
                                                                   .dy = wide.dx.data(),
                                                                   .bias_gradient = wide.bias.data(),
                                                                   .beta = static_cast<double>(beta)});
        CHECK(Agree<T>("bias and activation: dx", RelativeDistance(ours.dx, wide.dx), kRounded<T>));
        CHECK(Agree<T>("bias and activation: dbias", RelativeDistance(ours.bias, wide.bias), 1e-5));
      }
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
