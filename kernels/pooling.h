// MaxPool, AveragePool, GlobalAverage: reduce each window of an image (GlobalAverage: the whole image) to one pixel;
// with their backward passes.
//
// Shapes: x, dx [samples, height, width, channels]; y, dy and argmax [samples, out_height, out_width, channels]; of
//         GlobalAverage y and dy [samples, channels].
// Types:  float, double (on a CPU), Bf16 and Half; sums are in Wide<T>, and a result is rounded once.
// Parity: of equal values in a window the first one counts, row by row; NaN counts as larger than any number. Padding
//         is never the maximum, and counts as zeros in an average. Sums are over ascending pixels of the window or, for
//         dx, over ascending windows.
// Limits: padding is less than the window; an image has fewer than 2^31 pixels, on a device 2^31 elements.
#pragma once

#include <cstdint>

#include "kernels/base/context.h"
#include "kernels/base/image_windows.h"

namespace capstan::kernels {

// `argmax` receives the pixel of each maximum, as row * width + column.
template <class T>
void MaxPool(CpuContext& context, const ImageWindows& windows, const T* x, T* y, std::int32_t* argmax);
template <class T>
void MaxPool(CudaContext& context, const ImageWindows& windows, const T* x, T* y, std::int32_t* argmax);
template <class T>
void MaxPoolBackward(CpuContext& context, const ImageWindows& windows, const T* dy, const std::int32_t* argmax, T* dx);
template <class T>
void MaxPoolBackward(CudaContext& context, const ImageWindows& windows, const T* dy, const std::int32_t* argmax, T* dx);

template <class T>
void AveragePool(CpuContext& context, const ImageWindows& windows, const T* x, T* y);
template <class T>
void AveragePool(CudaContext& context, const ImageWindows& windows, const T* x, T* y);
template <class T>
void AveragePoolBackward(CpuContext& context, const ImageWindows& windows, const T* dy, T* dx);
template <class T>
void AveragePoolBackward(CudaContext& context, const ImageWindows& windows, const T* dy, T* dx);

// Computes the mean over the `pixels` pixels of each image, for each channel.
template <class T>
void GlobalAverage(CpuContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* x,
                   T* y);
template <class T>
void GlobalAverage(CudaContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels, const T* x,
                   T* y);
template <class T>
void GlobalAverageBackward(CpuContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels,
                           const T* dy, T* dx);
template <class T>
void GlobalAverageBackward(CudaContext& context, std::int64_t samples, std::int64_t pixels, std::int64_t channels,
                           const T* dy, T* dx);

}  // namespace capstan::kernels
