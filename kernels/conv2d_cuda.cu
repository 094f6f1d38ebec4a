// Convolution on a device: by cuDNN if the context has it and it supports the shape. Otherwise windows are laid out by
// blocks and each block is a product, with the launch shapes of Im2Col, Col2Im and Matmul. Bytes besides the product's:
// the columns are written and read once (for dx in float). A block of 16-bit columns fits into the L2 cache of an A100
// or H100.
// Operations: 2 * window_elements for each element of y, in each of the three functions.
#include <algorithm>

#include "kernels/conv2d.h"
#include "kernels/conv2d_products.h"
#include "kernels/cuda/convolutions.h"
#include "kernels/cuda/im2col.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTileRows = 128;  // for products on a device

// Returns the number of windows that are laid out at a time: a multiple of kTileRows, such that all blocks are about
// equal.
std::int64_t DeviceBlockRows(const ImageWindows& w, std::int64_t block_elements) {
  const std::int64_t most = std::max(kTileRows, block_elements / w.window_elements());
  const std::int64_t rows = w.samples * w.out_pixels();
  return RoundUp(DivideUp(rows, DivideUp(rows, most)), kTileRows);
}

// Returns the number of images whose windows are laid out at a time, such that all blocks are about equal.
std::int64_t DeviceBlockImages(const ImageWindows& w, std::int64_t block_elements) {
  const std::int64_t most = std::max<std::int64_t>(1, block_elements / (w.out_pixels() * w.window_elements()));
  return DivideUp(w.samples, DivideUp(w.samples, most));
}

// Lays out all windows, a block at a time, and calls product(first window, windows, columns) for each block.
template <class T, class OfBlock>
void ForBlocks(CudaContext& context, const ImageWindows& w, std::int64_t block_elements, const T* x,
               const OfBlock& product) {
  const std::int64_t rows = w.samples * w.out_pixels();
  if (rows == 0) return;
  const std::int64_t block = std::min(rows, DeviceBlockRows(w, block_elements));
  T* const columns = context.Workspace<T>(static_cast<std::size_t>(block * w.window_elements()));
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t last = std::min(rows, first + block);
    Im2Col(context, w, first, last, x, columns);
    product(first, last - first, columns);
  }
}

template <class T>
constexpr Encoding kNumbers = std::is_same_v<T, Bf16>   ? Encoding::kBf16
                              : std::is_same_v<T, Half> ? Encoding::kFp16
                                                        : Encoding::kFp32;

// Enqueues the convolution if the context has Convolutions that support it. Returns false if not.
template <class T>
bool IsConvolved(CudaContext& context, ConvolutionPass pass, const Conv2dShape& shape,
                 const Convolutions::Pointers& pointers, float beta) {
  Convolutions* const convolutions = context.convolutions();
  return convolutions != nullptr && shape.windows.samples > 0 && context.status().ok() &&
         convolutions->Run(context, {pass, kNumbers<T>, shape}, pointers, beta);
}

}  // namespace

template <class T>
void Conv2d(CudaContext& context, const Conv2dArgs<T>& args, std::int64_t block_elements) {
  const ImageWindows& w = args.shape.windows;
  if (IsProduct(w)) return Matmul(context, ForwardProduct(args, 0, w.samples * w.out_pixels(), args.x));
  const bool plain = args.bias == nullptr && args.activation == Activation::kNone;  // else y would be rounded twice
  const Convolutions::Pointers pointers{args.x, args.filter, args.y};
  if (plain && IsConvolved<T>(context, ConvolutionPass::kForward, args.shape, pointers, 0)) return;
  ForBlocks(context, w, block_elements, args.x, [&](std::int64_t first, std::int64_t rows, const T* columns) {
    Matmul(context, ForwardProduct(args, first, rows, columns));
  });
}

template <class T>
void Conv2dInputBackward(CudaContext& context, const Conv2dInputGradient<T>& g, std::int64_t block_elements) {
  const ImageWindows& w = g.shape.windows;
  const std::int64_t pixels = w.out_pixels();
  if (w.samples == 0) return;
  if (IsProduct(w)) return Matmul(context, InputProduct(g, 0, w.samples * pixels, g.dx, g.beta));
  if (IsConvolved<T>(context, ConvolutionPass::kInput, g.shape, {g.dy, g.filter, g.dx}, g.beta)) return;
  const std::int64_t block = DeviceBlockImages(w, block_elements);
  auto* columns = context.Workspace<float>(static_cast<std::size_t>(block * pixels * w.window_elements()));
  for (std::int64_t image = 0; image < w.samples; image += block) {
    ImageWindows part = w;
    part.samples = std::min(block, w.samples - image);
    Matmul(context, InputProduct(g, image * pixels, part.samples * pixels, columns, 0.0F));
    Col2Im(context, part, columns, g.beta, g.dx + image * w.image_elements());
  }
}

template <class T>
void Conv2dFilterBackward(CudaContext& context, const Conv2dFilterGradient<T>& g, std::int64_t block_elements) {
  const ImageWindows& w = g.shape.windows;
  if (IsProduct(w)) return Matmul(context, FilterProduct(g, 0, w.samples * w.out_pixels(), g.x));
  if constexpr (!kIs16Bit<T>) {  // from 16-bit numbers cuDNN computes no fp32 result
    const Convolutions::Pointers pointers{g.x, g.dy, g.filter_gradient};
    if (IsConvolved<T>(context, ConvolutionPass::kFilter, g.shape, pointers, g.beta)) return;
  }
  ForBlocks(context, w, block_elements, g.x, [&](std::int64_t first, std::int64_t rows, const T* columns) {
    Matmul(context, FilterProduct(g, first, rows, columns));
  });
}

template void Conv2d(CudaContext&, const Conv2dArgs<float>&, std::int64_t);
template void Conv2d(CudaContext&, const Conv2dArgs<Bf16>&, std::int64_t);
template void Conv2d(CudaContext&, const Conv2dArgs<Half>&, std::int64_t);
template void Conv2dInputBackward(CudaContext&, const Conv2dInputGradient<float>&, std::int64_t);
template void Conv2dInputBackward(CudaContext&, const Conv2dInputGradient<Bf16>&, std::int64_t);
template void Conv2dInputBackward(CudaContext&, const Conv2dInputGradient<Half>&, std::int64_t);
template void Conv2dFilterBackward(CudaContext&, const Conv2dFilterGradient<float>&, std::int64_t);
template void Conv2dFilterBackward(CudaContext&, const Conv2dFilterGradient<Bf16>&, std::int64_t);
template void Conv2dFilterBackward(CudaContext&, const Conv2dFilterGradient<Half>&, std::int64_t);

}  // namespace capstan::kernels
