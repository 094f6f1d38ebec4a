// The row kernels of a device against those of the CPU in double, on the same inputs.
#include <catch2/catch.hpp>

#include "kernels/axpby.h"
#include "tests/kernels/parity.h"
#include "tests/kernels_cuda/device.h"

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

}  // namespace
}  // namespace capstan::kernels
