// Im2Col and Col2Im on a device against the CPU.
#include "kernels/im2col.h"

#include <vector>

#include "kernels/cuda/im2col.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/parity.h"

namespace capstan::kernels {
namespace {

const std::vector<ImageWindows> kCases = {
    {1, 1, 1, 1, 1, 1, 1, 0},  {2, 15, 17, 3, 3, 3, 1, 1}, {3, 17, 15, 5, 3, 3, 2, 1},
    {2, 9, 8, 33, 1, 1, 2, 0}, {1, 31, 33, 1, 7, 5, 2, 3}, {25, 4, 3, 2, 3, 2, 1, 1},
    {2, 6, 5, 1, 6, 5, 1, 0},  {3, 4, 4, 2, 3, 3, 3, 2},  // each pixel in one window
    {2, 9, 7, 64, 3, 3, 1, 1}, {3, 8, 9, 24, 3, 3, 2, 1},  {2, 8, 8, 16, 1, 1, 2, 0},
};

TEMPLATE_TEST_CASE("Im2Col on a device copies what that of the CPU does", "[cuda][im2col]", float, Bf16, Half) {
  using T = TestType;
  for (const ImageWindows& w : kCases) {
    const std::int64_t rows = w.samples * w.out_pixels(), depth = w.window_elements();
    const auto x = RandomNumbers<T>(w.samples * w.image_elements(), 1);
    auto expected = Poison<T>(rows * depth);
    Im2Col(w, 0, rows, x.data(), expected.data());
    for (const std::int64_t offset : {0, 1}) {
      for (const std::int64_t first : {std::int64_t{0}, rows / 3}) {
        CAPTURE(w.height, w.width, w.channels, w.stride, w.padding, offset, first);
        const std::int64_t last = first == 0 ? rows : rows - rows / 4;
        Device device;
        DeviceArray<T> device_x(device, x, offset), columns(device, (last - first) * depth);
        Im2Col(device.context(), w, first, last, device_x.get(), columns.get());
        CHECK(SameBits(columns.Read(),
                       std::vector<T>(expected.begin() + first * depth, expected.begin() + last * depth)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("Col2Im on a device adds what that of the CPU does, to the old where asked", "[cuda][im2col]", float,
                   Bf16, Half) {
  using T = TestType;
  for (const ImageWindows& w : kCases) {
    const std::int64_t rows = w.samples * w.out_pixels(), count = w.samples * w.image_elements();
    const auto columns = RandomNumbers<float>(rows * w.window_elements(), 2);
    std::vector<double> sums(static_cast<std::size_t>(count));
    Col2Im(w, 0, rows, Doubles(columns).data(), sums.data());
    for (const std::int64_t offset : {0, 1}) {
      for (const float beta : {0.0F, 0.5F}) {
        CAPTURE(w.height, w.width, w.channels, w.stride, w.padding, offset, beta);
        const auto old = beta == 0 ? Poison<T>(count) : RandomNumbers<T>(count, 3);
        std::vector<double> expected = sums;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (beta != 0) expected[i] += static_cast<double>(beta) * static_cast<double>(Widen(old[i]));
        }
        Device device;
        DeviceArray<T> x(device, old, offset), again(device, old, offset);
        DeviceArray<float> device_columns(device, columns);
        Col2Im(device.context(), w, device_columns.get(), beta, x.get());
        Col2Im(device.context(), w, device_columns.get(), beta, again.get());
        CHECK(Agree<T>("Col2Im: x", RelativeDistance(x.Read(), expected), kRounded<T>));
        CHECK(SameBits(x.Read(), again.Read()));
      }
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
