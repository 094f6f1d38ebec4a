// ImageGrid: a grid in which each thread has one group of channels of one pixel. DeviceWindows: ImageWindows in device
// code.
//
// Limits: an image has fewer than 2^31 elements, and a grid fewer than 2^31 blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/base/status.h"
#include "kernels/base/image_windows.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/launch.h"

namespace capstan::kernels {

inline constexpr std::int64_t kIndexMax = INT32_MAX;  // the largest dividend of a Divisor

class ImageGrid {
 public:
  static constexpr unsigned kThreads = 128;  // few, so that small images leave few idle threads

  // A group has `wide` channels; `wide` divides the number of channels.
  ImageGrid(std::int64_t images, std::int64_t height, std::int64_t width, std::int64_t channels, int wide)
      : groups_(channels / wide), width_(width), threads_(static_cast<int>(height * width * (channels / wide))) {
    CAPSTAN_CHECK(height * width * channels <= kIndexMax);
    const std::int64_t blocks = (threads_ + std::int64_t{kThreads} - 1) / kThreads;
    CAPSTAN_CHECK(images * blocks <= kIndexMax);
    blocks_ = Divisor(blocks > 0 ? blocks : 1);
    grid_ = {dim3(static_cast<unsigned>(images * blocks)), dim3(kThreads)};
  }

  const Grid& grid() const { return grid_; }

  // Finds the pixel and the group of the calling thread. Returns false if the thread has none.
  __device__ __forceinline__ bool Find(int* image, int* y, int* x, int* group) const {
    int block = 0, pixel = 0;
    *image = blocks_.Divide(static_cast<int>(blockIdx.x), &block);
    const int thread = block * static_cast<int>(kThreads) + static_cast<int>(threadIdx.x);
    pixel = groups_.Divide(thread, group);
    *y = width_.Divide(pixel, x);
    return thread < threads_;
  }

 private:
  Divisor blocks_, groups_, width_;
  int threads_;  // per image
  Grid grid_;
};

struct DeviceWindows {
  explicit DeviceWindows(const ImageWindows& w)
      : height(static_cast<int>(w.height)),
        width(static_cast<int>(w.width)),
        channels(static_cast<int>(w.channels)),
        window_height(static_cast<int>(w.window_height)),
        window_width(static_cast<int>(w.window_width)),
        stride(static_cast<int>(w.stride)),
        padding(static_cast<int>(w.padding)),
        out_height(static_cast<int>(w.out_height())),
        out_width(static_cast<int>(w.out_width())),
        by_stride(w.stride) {
    CAPSTAN_CHECK(w.image_elements() <= kIndexMax && w.out_pixels() * w.channels <= kIndexMax);
    CAPSTAN_CHECK(w.height + 2 * w.padding <= kIndexMax && w.width + 2 * w.padding <= kIndexMax);
  }

  // Return where an image begins: ImageAt in an array of images, OutAt in an array with one pixel for each window.
  __device__ __forceinline__ std::int64_t ImageAt(int image) const {
    return static_cast<std::int64_t>(image) * (height * width * channels);
  }
  __device__ __forceinline__ std::int64_t OutAt(int image) const {
    return static_cast<std::int64_t>(image) * (out_height * out_width * channels);
  }

  int height, width, channels, window_height, window_width, stride, padding, out_height, out_width;
  Divisor by_stride;
};

struct IndexRange {
  int first, last;
};

// Returns which rows (or columns) of an image with `extent` of them window `index` covers.
__device__ __forceinline__ IndexRange Covered(const DeviceWindows& w, int index, int window, int extent) {
  const int begin = index * w.stride - w.padding;
  return {begin < 0 ? 0 : begin, begin + window < extent ? begin + window : extent};
}

// Returns which of `count` windows along one axis cover row (or column) `at`.
__device__ __forceinline__ IndexRange Covering(const DeviceWindows& w, int at, int window, int count) {
  const int from = at + w.padding, behind = w.by_stride.Divide(from) + 1;
  return {from < window ? 0 : w.by_stride.Divide(from - window) + 1, behind < count ? behind : count};
}

}  // namespace capstan::kernels
