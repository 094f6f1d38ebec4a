#include "kernels/pooling.h"

#include <algorithm>

#include "common/data/number16.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kGroup = 64;  // channels summed at a time

// Indices [first, last) of rows or columns.
struct Range {
  std::int64_t first, last;
};

Range Covered(std::int64_t index, std::int64_t window, std::int64_t extent, const ImageWindows& w) {
  const std::int64_t begin = index * w.stride - w.padding;
  return {std::max<std::int64_t>(begin, 0), std::min(begin + window, extent)};
}

// Returns the windows, among `count` along one axis, that cover row or column `at`.
Range Covering(std::int64_t at, std::int64_t window, std::int64_t count, const ImageWindows& w) {
  const std::int64_t from = at + w.padding;
  return {from < window ? 0 : (from - window) / w.stride + 1, std::min(from / w.stride + 1, count)};
}

// Calls each(n, y, x, first channel, channels) for every pixel of `samples` images and each group of up to kGroup
// channels. One row of pixels is one task.
template <class Each>
void ForPixels(CpuContext& context, std::int64_t samples, std::int64_t height, std::int64_t width,
               std::int64_t channels, const Each& each) {
  context.ParallelFor(samples * height, [&](std::int64_t row, int) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; c += kGroup) {
        each(row / height, row % height, x, c, std::min(kGroup, channels - c));
      }
    }
  });
}

template <class T>
void StoreScaled(const Wide<T>* sums, Wide<T> scale, std::int64_t count, T* out) {
  for (std::int64_t j = 0; j < count; ++j) out[j] = Narrow<T>(sums[j] * scale);
}

// Computes dx = scale * sums. For each pixel and each window that covers it, calls add(the window's element of dy,
// pixel, channels, sums), which adds to the sums.
template <class T, class Add>
void GatherWindows(CpuContext& context, const ImageWindows& w, Wide<T> scale, T* dx, const Add& add) {
  ForPixels(context, w.samples, w.height, w.width, w.channels,
            [&](std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t c, std::int64_t count) {
              Wide<T> sums[kGroup] = {};
              const Range down = Covering(y, w.window_height, w.out_height(), w);
              const Range across = Covering(x, w.window_width, w.out_width(), w);
              for (std::int64_t p = down.first; p < down.last; ++p) {
                for (std::int64_t q = across.first; q < across.last; ++q) {
                  add(((n * w.out_height() + p) * w.out_width() + q) * w.channels + c, y * w.width + x, count, sums);
                }
              }
              StoreScaled(sums, scale, count, dx + ((n * w.height + y) * w.width + x) * w.channels + c);
            });
}

}  // namespace

template <class T>
void MaxPool(CpuContext& context, const ImageWindows& w, const T* x, T* y, std::int32_t* argmax) {
  ForPixels(context, w.samples, w.out_height(), w.out_width(), w.channels,
            [&](std::int64_t n, std::int64_t p, std::int64_t q, std::int64_t c, std::int64_t count) {
              const Range down = Covered(p, w.window_height, w.height, w);
              const Range across = Covered(q, w.window_width, w.width, w);
              const T* image = x + n * w.image_elements() + c;
              Wide<T> largest[kGroup];
              std::int32_t at[kGroup];
              const std::int64_t first = down.first * w.width + across.first;
              for (std::int64_t j = 0; j < count; ++j) {
                largest[j] = Widen(image[first * w.channels + j]);
                at[j] = static_cast<std::int32_t>(first);
              }
              for (std::int64_t i = down.first; i < down.last; ++i) {
                for (std::int64_t k = across.first; k < across.last; ++k) {
                  const auto pixel = static_cast<std::int32_t>(i * w.width + k);
                  const T* values = image + pixel * w.channels;
                  for (std::int64_t j = 0; j < count; ++j) {
                    const Wide<T> v = Widen(values[j]);
                    const bool wins = v > largest[j] || (v != v && largest[j] == largest[j]);
                    largest[j] = wins ? v : largest[j];
                    at[j] = wins ? pixel : at[j];
                  }
                }
              }
              const std::int64_t out = ((n * w.out_height() + p) * w.out_width() + q) * w.channels + c;
              StoreScaled(largest, Wide<T>(1), count, y + out);
              std::copy_n(at, count, argmax + out);
            });
}

template <class T>
void MaxPoolBackward(CpuContext& context, const ImageWindows& w, const T* dy, const std::int32_t* argmax, T* dx) {
  GatherWindows(context, w, Wide<T>(1), dx,
                [&](std::int64_t window, std::int64_t pixel, std::int64_t count, Wide<T>* sums) {
                  for (std::int64_t j = 0; j < count; ++j) {
                    sums[j] += argmax[window + j] == pixel ? Widen(dy[window + j]) : Wide<T>(0);
                  }
                });
}

template <class T>
void AveragePool(CpuContext& context, const ImageWindows& w, const T* x, T* y) {
  const Wide<T> scale = Wide<T>(1) / static_cast<Wide<T>>(w.window_height * w.window_width);
  ForPixels(context, w.samples, w.out_height(), w.out_width(), w.channels,
            [&](std::int64_t n, std::int64_t p, std::int64_t q, std::int64_t c, std::int64_t count) {
              const Range down = Covered(p, w.window_height, w.height, w);
              const Range across = Covered(q, w.window_width, w.width, w);
              Wide<T> sums[kGroup] = {};
              for (std::int64_t i = down.first; i < down.last; ++i) {
                for (std::int64_t k = across.first; k < across.last; ++k) {
                  const T* values = x + ((n * w.height + i) * w.width + k) * w.channels + c;
                  for (std::int64_t j = 0; j < count; ++j) sums[j] += Widen(values[j]);
                }
              }
              StoreScaled(sums, scale, count, y + ((n * w.out_height() + p) * w.out_width() + q) * w.channels + c);
            });
}

template <class T>
void AveragePoolBackward(CpuContext& context, const ImageWindows& w, const T* dy, T* dx) {
  const Wide<T> scale = Wide<T>(1) / static_cast<Wide<T>>(w.window_height * w.window_width);
  GatherWindows(context, w, scale, dx, [&](std::int64_t window, std::int64_t, std::int64_t count, Wide<T>* sums) {
    for (std::int64_t j = 0; j < count; ++j) sums[j] += Widen(dy[window + j]);
  });
}

namespace {

// Returns the shape in which each image is a single window.
ImageWindows WholeImage(std::int64_t samples, std::int64_t pixels, std::int64_t channels) {
  return {.samples = samples,
          .height = 1,
          .width = pixels,
          .channels = channels,
          .window_height = 1,
          .window_width = pixels};
}

}  // namespace

template <class T>
void GlobalAverage(CpuContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* x,
                   T* y) {
  AveragePool(context, WholeImage(samples, pixels, channels), x, y);
}

template <class T>
void GlobalAverageBackward(CpuContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels,
                           const T* dy, T* dx) {
  AveragePoolBackward(context, WholeImage(samples, pixels, channels), dy, dx);
}

template void MaxPool(CpuContext&, const ImageWindows&, const float*, float*, std::int32_t*);
template void MaxPool(CpuContext&, const ImageWindows&, const double*, double*, std::int32_t*);
template void MaxPool(CpuContext&, const ImageWindows&, const Bf16*, Bf16*, std::int32_t*);
template void MaxPool(CpuContext&, const ImageWindows&, const Half*, Half*, std::int32_t*);
template void MaxPoolBackward(CpuContext&, const ImageWindows&, const float*, const std::int32_t*, float*);
template void MaxPoolBackward(CpuContext&, const ImageWindows&, const double*, const std::int32_t*, double*);
template void MaxPoolBackward(CpuContext&, const ImageWindows&, const Bf16*, const std::int32_t*, Bf16*);
template void MaxPoolBackward(CpuContext&, const ImageWindows&, const Half*, const std::int32_t*, Half*);
template void AveragePool(CpuContext&, const ImageWindows&, const float*, float*);
template void AveragePool(CpuContext&, const ImageWindows&, const double*, double*);
template void AveragePool(CpuContext&, const ImageWindows&, const Bf16*, Bf16*);
template void AveragePool(CpuContext&, const ImageWindows&, const Half*, Half*);
template void AveragePoolBackward(CpuContext&, const ImageWindows&, const float*, float*);
template void AveragePoolBackward(CpuContext&, const ImageWindows&, const double*, double*);
template void AveragePoolBackward(CpuContext&, const ImageWindows&, const Bf16*, Bf16*);
template void AveragePoolBackward(CpuContext&, const ImageWindows&, const Half*, Half*);
template void GlobalAverage(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void GlobalAverage(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const double*, double*);
template void GlobalAverage(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void GlobalAverage(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const Half*, Half*);
template void GlobalAverageBackward(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void GlobalAverageBackward(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const double*, double*);
template void GlobalAverageBackward(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void GlobalAverageBackward(CpuContext&, std::int64_t, std::int64_t, std::int64_t, const Half*, Half*);

}  // namespace capstan::kernels
