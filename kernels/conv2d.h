// Conv2d, Conv2dInputBackward, Conv2dFilterBackward: convolution as a matrix product.
//
// Shapes: x, dx [samples, height, width, channels]; filter [filters, window_height, window_width, channels]; bias
//         [filters]; y, dy [samples, out_height, out_width, filters].
// Types:  float, double (on a CPU), Bf16 and Half; sums are in Wide<T>, and a result is rounded once.
// Parity: y and the filter's gradient are products over ascending window elements and ascending output pixels, as in
//         matmul.h; dx adds such products in ascending output pixels. A window of 1 x 1, stride 1 and no padding is one
//         product. On a device the filter's gradient adds products of as many windows at a time as its block size
//         allows, in ascending order. A device context with Convolutions (cuda/convolutions.h) uses them, for shapes
//         that they support, for y without bias and activation, for dx, and for the filter's gradient in float. Their
//         order of sums is their own, and the same each time.
// Why:    windows are copied into a matrix (im2col) instead of being read from the image during packing. In a step of
//         resnet18 on 32 x 32 pixels the copy takes 5 % (fp32) or 6 % (bf16), about half of it in the forward pass;
//         packing from the image would save only part of it.
// Limits: workspace as Conv2dWorkspaceBytes says. For y and dx each thread has columns of about kConvBlockElements
//         elements, but of 192 to 480 windows; for dx also the sums of an image or a few. For the filter's
//         gradient all threads together have columns of about kConvChunkElements elements, or of 2 kMatmulDepth windows
//         if these are more. On a device there are columns of about `block_elements` elements (for dx in float), and of
//         at least 128 windows (for dx: one image); an image, its windows and the columns have fewer than 2^31
//         elements.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "kernels/base/image_windows.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

inline constexpr std::int64_t kConvBlockElements = 1 << 18;
inline constexpr std::int64_t kConvChunkElements = 1 << 20;
// The number of elements of columns (copied windows) that are laid out on a device at a time. In 16 bits they
// take 32 MiB, which fits into the L2 cache of an A100 or H100. A product of that many
// elements is large enough for all multiprocessors.
inline constexpr std::int64_t kConvDeviceElements = 1 << 24;

template <class T>
struct Conv2dArgs {
  Conv2dShape shape;
  const T* x = nullptr;
  const T* filter = nullptr;
  const T* bias = nullptr;  // null: none
  T* y = nullptr;           // after the activation
  Activation activation = Activation::kNone;
};

template <class T>
void Conv2d(CpuContext& context, const Conv2dArgs<T>& args);
template <class T>
void Conv2d(CudaContext& context, const Conv2dArgs<T>& args, std::int64_t block_elements = kConvDeviceElements);

template <class T>
struct Conv2dInputGradient {
  Conv2dShape shape;
  const T* filter = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;   // beta * old + gradient
  Wide<T> beta = 0;  // 0: written without being read
};

template <class T>
void Conv2dInputBackward(CpuContext& context, const Conv2dInputGradient<T>& gradient);
template <class T>
void Conv2dInputBackward(CudaContext& context, const Conv2dInputGradient<T>& gradient,
                         std::int64_t block_elements = kConvDeviceElements);

template <class T>
struct Conv2dFilterGradient {
  Conv2dShape shape;
  const T* x = nullptr;
  const T* dy = nullptr;
  Wide<T>* filter_gradient = nullptr;  // beta * old + gradient
  Wide<T> beta = 0;                    // 0: written without being read
};

template <class T>
void Conv2dFilterBackward(CpuContext& context, const Conv2dFilterGradient<T>& gradient);
template <class T>
void Conv2dFilterBackward(CudaContext& context, const Conv2dFilterGradient<T>& gradient,
                          std::int64_t block_elements = kConvDeviceElements);

// Returns the most bytes of the context's workspace that any of the three functions uses for this shape, or for the
// shape with fewer samples.
template <class T>
std::size_t Conv2dWorkspaceBytes(const CpuContext& context, const Conv2dShape& shape);

}  // namespace capstan::kernels
