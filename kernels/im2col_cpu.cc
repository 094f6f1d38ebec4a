#include <algorithm>

#include "common/data/number16.h"
#include "kernels/im2col.h"

namespace capstan::kernels {
namespace {

// Calls visit(begin, end, at) once for each row of pixels of window `row`. Elements [begin, end) of this row of pixels
// lie inside the image, one after the other from the image's element `at` on. The other elements are padding.
template <class Visit>
void VisitWindow(const ImageWindows& w, std::int64_t row, const Visit& visit) {
  const std::int64_t q = row % w.out_width(), p = row / w.out_width() % w.out_height();
  const std::int64_t top = p * w.stride - w.padding, left = q * w.stride - w.padding;
  const std::int64_t first = std::clamp<std::int64_t>(-left, 0, w.window_width);
  const std::int64_t last = std::clamp<std::int64_t>(w.width - left, first, w.window_width);
  for (std::int64_t r = 0; r < w.window_height; ++r) {
    const std::int64_t y = top + r;
    if (y < 0 || y >= w.height) {
      visit(0, 0, 0);
    } else {
      visit(first * w.channels, last * w.channels, (y * w.width + left + first) * w.channels);
    }
  }
}

}  // namespace

template <class T>
void Im2Col(const ImageWindows& windows, std::int64_t first, std::int64_t last, const T* x, T* columns) {
  const std::int64_t width = windows.window_width * windows.channels, pixels = windows.out_pixels();
  for (std::int64_t row = first; row < last; ++row) {
    const T* image = x + row / pixels * windows.image_elements();
    VisitWindow(windows, row, [&](std::int64_t inside, std::int64_t outside, std::int64_t at) {
      std::fill_n(columns, inside, T{});
      std::copy_n(image + at, outside - inside, columns + inside);
      std::fill_n(columns + outside, width - outside, T{});
      columns += width;
    });
  }
}

template <class T>
void Col2Im(const ImageWindows& windows, std::int64_t first, std::int64_t last, const T* columns, T* x) {
  const std::int64_t width = windows.window_width * windows.channels, pixels = windows.out_pixels();
  for (std::int64_t row = first; row < last; ++row) {
    T* image = x + (row / pixels - first / pixels) * windows.image_elements();
    VisitWindow(windows, row, [&](std::int64_t inside, std::int64_t outside, std::int64_t at) {
      const T* __restrict from = columns + inside;
      T* __restrict to = image + at;
      for (std::int64_t i = 0; i < outside - inside; ++i) to[i] += from[i];
      columns += width;
    });
  }
}

template void Im2Col(const ImageWindows&, std::int64_t, std::int64_t, const float*, float*);
template void Im2Col(const ImageWindows&, std::int64_t, std::int64_t, const double*, double*);
template void Im2Col(const ImageWindows&, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void Im2Col(const ImageWindows&, std::int64_t, std::int64_t, const Half*, Half*);
template void Col2Im(const ImageWindows&, std::int64_t, std::int64_t, const float*, float*);
template void Col2Im(const ImageWindows&, std::int64_t, std::int64_t, const double*, double*);

}  // namespace capstan::kernels
