// Pooling on a device. A thread owns 16 bytes of channels of one output pixel (one channel if pixels are not aligned);
// 128 threads to a block, all of one image. Bytes: x or dy once from memory, because overlapping windows find it in the
// cache, and y or dx once; MaxPool also 4 bytes of argmax for each element of y. One or two operations for each element
// of each window.
#include "kernels/cuda/group.h"
#include "kernels/cuda/image_grid.h"
#include "kernels/cuda/launch.h"
#include "kernels/pooling.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = ImageGrid::kThreads;

template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
    MaxOfWindows(ImageGrid grid, DeviceWindows w, const T* x, T* y, std::int32_t* argmax) {
  int n = 0, p = 0, q = 0, group = 0;
  if (!grid.Find(&n, &p, &q, &group)) return;
  const IndexRange down = Covered(w, p, w.window_height, w.height), across = Covered(w, q, w.window_width, w.width);
  const T* image = x + w.ImageAt(n) + group * kWide;
  const int first = down.first * w.width + across.first;
  Group<float, kWide> largest = LoadFloats<kWide>(image + first * w.channels);
  Group<std::int32_t, kWide> at;
  for (int j = 0; j < kWide; ++j) at.value[j] = first;
  for (int i = down.first; i < down.last; ++i) {
    for (int k = across.first; k < across.last; ++k) {
      const int pixel = i * w.width + k;
      const Group<float, kWide> values = LoadFloats<kWide>(image + pixel * w.channels);
      for (int j = 0; j < kWide; ++j) {
        const float v = values.value[j], old = largest.value[j];
        const bool wins = v > old || (v != v && old == old);
        largest.value[j] = wins ? v : old;
        at.value[j] = wins ? pixel : at.value[j];
      }
    }
  }
  const std::int64_t out = w.OutAt(n) + (p * w.out_width + q) * w.channels + group * kWide;
  StoreRounded(y + out, largest);
  StoreGroup(argmax + out, at);
}

// Computes dx: for each pixel the sum of dy over the windows whose maximum is this pixel.
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
    GatherMaxima(ImageGrid grid, DeviceWindows w, const T* dy, const std::int32_t* argmax, T* dx) {
  int n = 0, y = 0, x = 0, group = 0;
  if (!grid.Find(&n, &y, &x, &group)) return;
  const IndexRange down = Covering(w, y, w.window_height, w.out_height);
  const IndexRange across = Covering(w, x, w.window_width, w.out_width);
  const int pixel = y * w.width + x;
  const std::int64_t windows = w.OutAt(n) + group * kWide;
  Group<float, kWide> sums = {};
  for (int p = down.first; p < down.last; ++p) {
    for (int q = across.first; q < across.last; ++q) {
      const std::int64_t window = windows + (p * w.out_width + q) * w.channels;
      const Group<std::int32_t, kWide> at = LoadGroup<kWide>(argmax + window);
      const Group<float, kWide> values = LoadFloats<kWide>(dy + window);
      for (int j = 0; j < kWide; ++j) sums.value[j] += at.value[j] == pixel ? values.value[j] : 0.0F;
    }
  }
  StoreRounded(dx + w.ImageAt(n) + pixel * w.channels + group * kWide, sums);
}

template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
    MeanOfWindows(ImageGrid grid, DeviceWindows w, float scale, const T* x, T* y) {
  int n = 0, p = 0, q = 0, group = 0;
  if (!grid.Find(&n, &p, &q, &group)) return;
  const IndexRange down = Covered(w, p, w.window_height, w.height), across = Covered(w, q, w.window_width, w.width);
  const T* image = x + w.ImageAt(n) + group * kWide;
  Group<float, kWide> sums = {};
  for (int i = down.first; i < down.last; ++i) {
    for (int k = across.first; k < across.last; ++k) {
      const Group<float, kWide> values = LoadFloats<kWide>(image + (i * w.width + k) * w.channels);
      for (int j = 0; j < kWide; ++j) sums.value[j] += values.value[j];
    }
  }
  for (int j = 0; j < kWide; ++j) sums.value[j] *= scale;
  StoreRounded(y + w.OutAt(n) + (p * w.out_width + q) * w.channels + group * kWide, sums);
}

// Computes dx = scale * the sum of dy over the windows that contain the pixel.
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
    GatherMeans(ImageGrid grid, DeviceWindows w, float scale, const T* dy, T* dx) {
  int n = 0, y = 0, x = 0, group = 0;
  if (!grid.Find(&n, &y, &x, &group)) return;
  const IndexRange down = Covering(w, y, w.window_height, w.out_height);
  const IndexRange across = Covering(w, x, w.window_width, w.out_width);
  const T* windows = dy + w.OutAt(n) + group * kWide;
  Group<float, kWide> sums = {};
  for (int p = down.first; p < down.last; ++p) {
    for (int q = across.first; q < across.last; ++q) {
      const Group<float, kWide> values = LoadFloats<kWide>(windows + (p * w.out_width + q) * w.channels);
      for (int j = 0; j < kWide; ++j) sums.value[j] += values.value[j];
    }
  }
  for (int j = 0; j < kWide; ++j) sums.value[j] *= scale;
  StoreRounded(dx + w.ImageAt(n) + (y * w.width + x) * w.channels + group * kWide, sums);
}

ImageGrid OutGrid(const ImageWindows& w, int wide) {
  return {w.samples, w.out_height(), w.out_width(), w.channels, wide};
}
ImageGrid InGrid(const ImageWindows& w, int wide) { return {w.samples, w.height, w.width, w.channels, wide}; }

float MeanScale(const ImageWindows& w) { return 1.0F / static_cast<float>(w.window_height * w.window_width); }

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
void MaxPool(CudaContext& context, const ImageWindows& w, const T* x, T* y, std::int32_t* argmax) {
  const auto pool = [&](auto wide) {
    const ImageGrid grid = OutGrid(w, wide());
    Launch(context, MaxOfWindows<T, wide()>, grid.grid(), grid, DeviceWindows(w), x, y, argmax);
  };
  WithGroup<T>(w.channels, pool, x, y, argmax);
}

template <class T>
void MaxPoolBackward(CudaContext& context, const ImageWindows& w, const T* dy, const std::int32_t* argmax, T* dx) {
  const auto gather = [&](auto wide) {
    const ImageGrid grid = InGrid(w, wide());
    Launch(context, GatherMaxima<T, wide()>, grid.grid(), grid, DeviceWindows(w), dy, argmax, dx);
  };
  WithGroup<T>(w.channels, gather, dy, argmax, dx);
}

template <class T>
void AveragePool(CudaContext& context, const ImageWindows& w, const T* x, T* y) {
  const auto pool = [&](auto wide) {
    const ImageGrid grid = OutGrid(w, wide());
    Launch(context, MeanOfWindows<T, wide()>, grid.grid(), grid, DeviceWindows(w), MeanScale(w), x, y);
  };
  WithGroup<T>(w.channels, pool, x, y);
}

template <class T>
void AveragePoolBackward(CudaContext& context, const ImageWindows& w, const T* dy, T* dx) {
  const auto gather = [&](auto wide) {
    const ImageGrid grid = InGrid(w, wide());
    Launch(context, GatherMeans<T, wide()>, grid.grid(), grid, DeviceWindows(w), MeanScale(w), dy, dx);
  };
  WithGroup<T>(w.channels, gather, dy, dx);
}

template <class T>
void GlobalAverage(CudaContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* x,
                   T* y) {
  AveragePool(context, WholeImage(samples, pixels, channels), x, y);
}

template <class T>
void GlobalAverageBackward(CudaContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels,
                           const T* dy, T* dx) {
  AveragePoolBackward(context, WholeImage(samples, pixels, channels), dy, dx);
}

template void MaxPool(CudaContext&, const ImageWindows&, const float*, float*, std::int32_t*);
template void MaxPool(CudaContext&, const ImageWindows&, const Bf16*, Bf16*, std::int32_t*);
template void MaxPool(CudaContext&, const ImageWindows&, const Half*, Half*, std::int32_t*);
template void MaxPoolBackward(CudaContext&, const ImageWindows&, const float*, const std::int32_t*, float*);
template void MaxPoolBackward(CudaContext&, const ImageWindows&, const Bf16*, const std::int32_t*, Bf16*);
template void MaxPoolBackward(CudaContext&, const ImageWindows&, const Half*, const std::int32_t*, Half*);
template void AveragePool(CudaContext&, const ImageWindows&, const float*, float*);
template void AveragePool(CudaContext&, const ImageWindows&, const Bf16*, Bf16*);
template void AveragePool(CudaContext&, const ImageWindows&, const Half*, Half*);
template void AveragePoolBackward(CudaContext&, const ImageWindows&, const float*, float*);
template void AveragePoolBackward(CudaContext&, const ImageWindows&, const Bf16*, Bf16*);
template void AveragePoolBackward(CudaContext&, const ImageWindows&, const Half*, Half*);
template void GlobalAverage(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void GlobalAverage(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void GlobalAverage(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const Half*, Half*);
template void GlobalAverageBackward(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const float*, float*);
template void GlobalAverageBackward(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void GlobalAverageBackward(CudaContext&, std::int64_t, std::int64_t, std::int64_t, const Half*, Half*);

}  // namespace capstan::kernels
