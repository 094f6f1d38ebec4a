// ImageWindows: a rectangular window that moves over images, as in convolution and pooling.
//
// Kind:   value.
// Shapes: images [samples, height, width, channels]; a window is [window_height, window_width, channels], its corner at
//         (p * stride - padding, q * stride - padding) for p < out_height(), q < out_width().
#pragma once

#include <compare>
#include <cstdint>

namespace capstan::kernels {

struct ImageWindows {
  std::int64_t samples = 0, height = 0, width = 0, channels = 0;
  std::int64_t window_height = 0, window_width = 0;  // at most as large as the padded image
  std::int64_t stride = 1, padding = 0;              // the same at all four sides

  std::int64_t out_height() const { return (height + 2 * padding - window_height) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - window_width) / stride + 1; }
  std::int64_t out_pixels() const { return out_height() * out_width(); }  // windows of one image
  std::int64_t window_elements() const { return window_height * window_width * channels; }
  std::int64_t image_elements() const { return height * width * channels; }
  auto operator<=>(const ImageWindows&) const = default;
};

// The shape of a convolution. Its output has as many channels as there are filters.
struct Conv2dShape {
  ImageWindows windows;
  std::int64_t filters = 0;
  auto operator<=>(const Conv2dShape&) const = default;
};

}  // namespace capstan::kernels
