#include "kernels/conv2d.h"

#include <algorithm>
#include <iterator>

#include "kernels/conv2d_products.h"
#include "kernels/im2col.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kBlockRowsMin = 192, kBlockRowsMax = 480;  // fewer rows do not pay for packing the filter
constexpr std::int64_t kPanelRows = 32;                           // rows of the tallest tile of a product

// Sizes of the part of the filter's gradient that one thread computes at a time, largest first: larger parts need less
// packing.
struct TileSize {
  std::int64_t rows, columns;
};
constexpr TileSize kTileSizes[] = {{672, 512}, {192, 256}, {192, 128}, {96, 128}};

std::int64_t BlockRowsMost(const ImageWindows& w) {
  return std::clamp(kConvBlockElements / w.window_elements(), kBlockRowsMin, kBlockRowsMax);
}

// Returns the number of windows that are laid out as a matrix at a time. A thread's share of the windows is cut into
// blocks that are as equal as possible.
std::int64_t BlockRows(const ImageWindows& w, int threads) {
  const std::int64_t share = DivideUp(w.samples * w.out_pixels(), threads);
  return RoundUp(std::max(DivideUp(share, DivideUp(share, BlockRowsMost(w))), kBlockRowsMin / 2), kPanelRows);
}

// Returns the largest value that BlockRows has for w.samples samples or fewer. Fewer samples may need larger blocks,
// because a few more windows can split one block into two.
std::int64_t BlockRowsBound(const ImageWindows& w, int threads) {
  const std::int64_t share = DivideUp(w.samples * w.out_pixels(), threads);
  return RoundUp(std::max(std::min(share, BlockRowsMost(w)), kBlockRowsMin / 2), kPanelRows);
}

// Returns the number of windows that are added to the filter's gradient at a time. It is a multiple of the depth of a
// product's blocks, for any type of number, so that the order of sums is that of one product.
std::int64_t ChunkRows(const ImageWindows& w) {
  constexpr std::int64_t kDepth = 2 * kMatmulDepth;
  return std::max<std::int64_t>(1, kConvChunkElements / (w.window_elements() * kDepth)) * kDepth;
}

// The parts of a thread's workspace for dx; sizes count elements of type Wide<T>.
struct InputParts {
  InputParts(const ImageWindows& w, std::int64_t block)
      : images(std::clamp<std::int64_t>(block / w.out_pixels(), 1, w.samples)),
        columns_size(RoundUp(block * w.window_elements(), 16)),
        sums_size(RoundUp(images * w.image_elements(), 16)) {}

  std::int64_t images;  // per task
  std::int64_t columns_size, sums_size;
};

std::int64_t FilterColumnsSize(const ImageWindows& w) {
  return RoundUp(std::min(ChunkRows(w), w.samples * w.out_pixels()) * w.window_elements(), 16);
}

std::int64_t TilesOf(std::int64_t rows, std::int64_t columns, const TileSize& size) {
  return DivideUp(rows, size.rows) * DivideUp(columns, size.columns);
}

// Returns the largest tile size that gives four tiles for each thread (one, if there is one thread), so that the
// threads end together. If there is none, returns the smallest size.
TileSize ChooseTiles(std::int64_t rows, std::int64_t columns, int threads) {
  const std::int64_t wanted = threads == 1 ? 1 : 4 * threads;
  for (const TileSize& size : kTileSizes) {
    if (TilesOf(rows, columns, size) >= wanted) return size;
  }
  return kTileSizes[std::size(kTileSizes) - 1];
}

// Computes dx of images [first, last). `columns` holds `block` windows at a time, `sums` holds these images.
template <class T>
void InputBackwardOfImages(const Conv2dInputGradient<T>& g, std::int64_t first, std::int64_t last, std::int64_t block,
                           Wide<T>* columns, Wide<T>* sums, Wide<T>* scratch) {
  const ImageWindows& w = g.shape.windows;
  const std::int64_t pixels = w.out_pixels(), count = (last - first) * w.image_elements();
  std::fill_n(sums, count, Wide<T>(0));
  for (std::int64_t row = first * pixels; row < last * pixels; row += block) {
    const std::int64_t rows = std::min(block, last * pixels - row);
    MatmulOnThisThread(InputProduct(g, row, rows, columns, Wide<T>(0)), scratch);
    Col2Im(w, row, row + rows, columns, sums + (row / pixels - first) * w.image_elements());
  }
  T* dx = g.dx + first * w.image_elements();
  if (g.beta == Wide<T>(0)) {
    for (std::int64_t i = 0; i < count; ++i) dx[i] = Narrow<T>(sums[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) dx[i] = Narrow<T>(g.beta * Widen(dx[i]) + sums[i]);
  }
}

// Computes one tile of the filter's gradient.
template <class T>
void FilterTile(Product<T, Wide<T>> product, const TileSize& size, std::int64_t index, Wide<T>* scratch) {
  const std::int64_t across = DivideUp(product.n, size.columns);
  const std::int64_t row = index / across * size.rows, column = index % across * size.columns;
  product.m = std::min(size.rows, product.m - row);
  product.n = std::min(size.columns, product.n - column);
  product.a.data += row;
  product.b.data += column;
  product.c += row * product.c_stride + column;
  MatmulOnThisThread(product, scratch);
}

}  // namespace

template <class T>
void Conv2d(CpuContext& context, const Conv2dArgs<T>& args) {
  const ImageWindows& w = args.shape.windows;
  const std::int64_t rows = w.samples * w.out_pixels(), block = BlockRows(w, context.threads());
  if (IsProduct(w)) return Matmul(context, ForwardProduct(args, 0, rows, args.x));
  const std::int64_t columns_size = RoundUp(block * w.window_elements(), 16), each = columns_size + kMatmulScratch<T>;
  auto* workspace = context.Workspace<Wide<T>>(static_cast<std::size_t>(each * context.threads()));
  context.ParallelFor(DivideUp(rows, block), [&](std::int64_t task, int lane) {
    Wide<T>* scratch = workspace + lane * each;
    T* columns = reinterpret_cast<T*>(scratch + kMatmulScratch<T>);
    const std::int64_t first = task * block, last = std::min(rows, first + block);
    Im2Col(w, first, last, args.x, columns);
    MatmulOnThisThread(ForwardProduct(args, first, last - first, columns), scratch);
  });
}

template <class T>
void Conv2dInputBackward(CpuContext& context, const Conv2dInputGradient<T>& g) {
  const ImageWindows& w = g.shape.windows;
  if (IsProduct(w)) return Matmul(context, InputProduct(g, 0, w.samples * w.out_pixels(), g.dx, g.beta));
  const std::int64_t block = BlockRows(w, context.threads());
  const InputParts parts(w, block);
  const std::int64_t images = parts.images, each = parts.columns_size + parts.sums_size + kMatmulScratch<T>;
  auto* workspace = context.Workspace<Wide<T>>(static_cast<std::size_t>(each * context.threads()));
  context.ParallelFor(DivideUp(w.samples, images), [&](std::int64_t task, int lane) {
    Wide<T>* columns = workspace + lane * each;
    InputBackwardOfImages(g, task * images, std::min(w.samples, (task + 1) * images), block, columns,
                          columns + parts.columns_size, columns + parts.columns_size + parts.sums_size);
  });
}

template <class T>
void Conv2dFilterBackward(CpuContext& context, const Conv2dFilterGradient<T>& g) {
  const ImageWindows& w = g.shape.windows;
  const std::int64_t rows = w.samples * w.out_pixels(), depth = w.window_elements();
  if (IsProduct(w)) return Matmul(context, FilterProduct(g, 0, rows, g.x));
  const std::int64_t chunk = std::min(ChunkRows(w), rows);
  const TileSize size = ChooseTiles(g.shape.filters, depth, context.threads());
  const std::int64_t block = BlockRows(w, context.threads());
  auto* scratch = context.Workspace<Wide<T>>(
      static_cast<std::size_t>(FilterColumnsSize(w) + kMatmulScratch<T> * context.threads()));
  T* columns = reinterpret_cast<T*>(scratch + kMatmulScratch<T> * context.threads());
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t last = std::min(rows, first + chunk);
    context.ParallelFor(DivideUp(last - first, block), [&](std::int64_t task, int) {
      const std::int64_t row = first + task * block;
      Im2Col(w, row, std::min(last, row + block), g.x, columns + task * block * depth);
    });
    const Product<T, Wide<T>> product = FilterProduct(g, first, last - first, columns);
    context.ParallelFor(TilesOf(product.m, product.n, size), [&](std::int64_t tile, int lane) {
      FilterTile(product, size, tile, scratch + lane * kMatmulScratch<T>);
    });
  }
}

template <class T>
std::size_t Conv2dWorkspaceBytes(const CpuContext& context, const Conv2dShape& shape) {
  const ImageWindows& w = shape.windows;
  std::int64_t size = kMatmulScratch<T> * context.threads();
  if (!IsProduct(w)) {
    const InputParts parts(w, BlockRowsBound(w, context.threads()));  // y needs the same without `sums`
    size += std::max((parts.columns_size + parts.sums_size) * context.threads(), FilterColumnsSize(w));
  }
  return static_cast<std::size_t>(size) * sizeof(Wide<T>);
}

template std::size_t Conv2dWorkspaceBytes<float>(const CpuContext&, const Conv2dShape&);
template std::size_t Conv2dWorkspaceBytes<double>(const CpuContext&, const Conv2dShape&);
template std::size_t Conv2dWorkspaceBytes<Bf16>(const CpuContext&, const Conv2dShape&);
template std::size_t Conv2dWorkspaceBytes<Half>(const CpuContext&, const Conv2dShape&);
template void Conv2d(CpuContext&, const Conv2dArgs<float>&);
template void Conv2d(CpuContext&, const Conv2dArgs<double>&);
template void Conv2d(CpuContext&, const Conv2dArgs<Bf16>&);
template void Conv2d(CpuContext&, const Conv2dArgs<Half>&);
template void Conv2dInputBackward(CpuContext&, const Conv2dInputGradient<float>&);
template void Conv2dInputBackward(CpuContext&, const Conv2dInputGradient<double>&);
template void Conv2dInputBackward(CpuContext&, const Conv2dInputGradient<Bf16>&);
template void Conv2dInputBackward(CpuContext&, const Conv2dInputGradient<Half>&);
template void Conv2dFilterBackward(CpuContext&, const Conv2dFilterGradient<float>&);
template void Conv2dFilterBackward(CpuContext&, const Conv2dFilterGradient<double>&);
template void Conv2dFilterBackward(CpuContext&, const Conv2dFilterGradient<Bf16>&);
template void Conv2dFilterBackward(CpuContext&, const Conv2dFilterGradient<Half>&);

}  // namespace capstan::kernels
