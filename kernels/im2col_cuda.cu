// Im2Col and Col2Im on a device.
//
// Im2Col: a thread writes 16 bytes of a matrix row: from one pixel if pixels are aligned, otherwise number by number;
// 256 threads to a block. Bytes: the columns once; x once from memory, because overlapping windows find it in the
// cache. Col2Im: a thread owns 16 bytes of channels of one pixel (one channel if pixels are not aligned); 128 threads
// to a block of one image. Bytes: the columns and x once; one addition for each element of the columns.
#include "kernels/cuda/group.h"
#include "kernels/cuda/im2col.h"
#include "kernels/cuda/image_grid.h"
#include "kernels/cuda/launch.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 256;

// The place of a group of channels in the matrix: window (p, q) of image n, and row r, column s of the window.
struct Spot {
  int n, p, q, r, s, group;
};

// The matrix as a sequence of groups of channels.
class ColumnGroups {
 public:
  ColumnGroups(const ImageWindows& w, std::int64_t first, int wide)
      : first_(static_cast<int>(first)),
        groups_(w.channels / wide),
        row_groups_(w.window_elements() / wide),
        window_width_(w.window_width),
        out_width_(w.out_width()),
        out_pixels_(w.out_pixels()) {}

  __device__ __forceinline__ Spot Find(int index) const {
    Spot spot{};
    int rest = 0;
    const int row = first_ + row_groups_.Divide(index, &rest);
    spot.r = window_width_.Divide(groups_.Divide(rest, &spot.group), &spot.s);
    spot.n = out_pixels_.Divide(row, &rest);
    spot.p = out_width_.Divide(rest, &spot.q);
    return spot;
  }

  // Moves to the next group.
  __device__ __forceinline__ void Advance(const DeviceWindows& w, Spot* spot) const {
    if (++spot->group < static_cast<int>(groups_.by)) return;
    spot->group = 0;
    if (++spot->s < w.window_width) return;
    spot->s = 0;
    if (++spot->r < w.window_height) return;
    spot->r = 0;
    if (++spot->q < w.out_width) return;
    spot->q = 0;
    if (++spot->p < w.out_height) return;
    spot->p = 0;
    ++spot->n;
  }

 private:
  int first_;  // the first row
  Divisor groups_, row_groups_, window_width_, out_width_, out_pixels_;
};

template <int kWide, class T>
__device__ __forceinline__ Group<T, kWide> LoadSpot(const DeviceWindows& w, const Spot& spot, const T* x) {
  const int row = spot.p * w.stride - w.padding + spot.r, column = spot.q * w.stride - w.padding + spot.s;
  if (row < 0 || row >= w.height || column < 0 || column >= w.width) return {};
  return LoadGroup<kWide>(x + w.ImageAt(spot.n) + (row * w.width + column) * w.channels + spot.group * kWide);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    LayOutPacks(DeviceWindows w, ColumnGroups columns, int count, const T* x, T* to) {
  constexpr int kWide = Pack<T>::kCount;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) StoreGroup(to + i * kWide, LoadSpot<kWide>(w, columns.Find(static_cast<int>(i)), x));
}

// As LayOutPacks, but number by number, for pixels that are not aligned.
template <class T>
__global__ void __launch_bounds__(kThreads)
    LayOutNumbers(DeviceWindows w, ColumnGroups columns, int count, const T* x, T* to) {
  constexpr int kEach = Pack<T>::kCount;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (i >= count) return;
  Spot spot = columns.Find(static_cast<int>(i));
  Group<T, kEach> numbers = {};
  for (int j = 0; j < kEach; ++j) {
    if (i + j >= count) break;
    numbers.value[j] = LoadSpot<1>(w, spot, x).value[0];
    columns.Advance(w, &spot);
  }
  if (i + kEach <= count) return StoreGroup(to + i, numbers);
  for (int j = 0; j < kEach; ++j) {
    if (i + j < count) to[i + j] = numbers.value[j];
  }
}

template <class T, int kWide>
__global__ void __launch_bounds__(ImageGrid::kThreads)
    GatherColumns(ImageGrid grid, DeviceWindows w, const float* columns, float beta, T* x) {
  int n = 0, row = 0, column = 0, group = 0;
  if (!grid.Find(&n, &row, &column, &group)) return;
  const IndexRange down = Covering(w, row, w.window_height, w.out_height);
  const IndexRange across = Covering(w, column, w.window_width, w.out_width);
  const int window = w.window_height * w.window_width;  // pixels of a window
  const std::int64_t image = static_cast<std::int64_t>(n) * (w.out_height * w.out_width);
  Group<float, kWide> sums = {};
  for (int p = down.first; p < down.last; ++p) {
    for (int q = across.first; q < across.last; ++q) {
      const int inside = (row + w.padding - p * w.stride) * w.window_width + column + w.padding - q * w.stride;
      const std::int64_t pixel = (image + p * w.out_width + q) * window + inside;
      const Group<float, kWide> values = LoadGroup<kWide>(columns + pixel * w.channels + group * kWide);
      for (int j = 0; j < kWide; ++j) sums.value[j] += values.value[j];
    }
  }
  T* const to = x + w.ImageAt(n) + (row * w.width + column) * w.channels + group * kWide;
  if (beta != 0) {
    const Group<float, kWide> old = LoadFloats<kWide>(to);
    for (int j = 0; j < kWide; ++j) sums.value[j] = beta * old.value[j] + sums.value[j];
  }
  StoreRounded(to, sums);
}

}  // namespace

template <class T>
void Im2Col(CudaContext& context, const ImageWindows& w, std::int64_t first, std::int64_t last, const T* x,
            T* columns) {
  const std::int64_t count = (last - first) * w.window_elements();
  CAPSTAN_CHECK(count <= kIndexMax && last <= kIndexMax && ArePacked(0, columns));
  constexpr int kPack = Pack<T>::kCount;
  if (ArePacked(w.channels * static_cast<std::int64_t>(sizeof(T)), x)) {
    const ColumnGroups groups(w, first, kPack);
    const auto packs = static_cast<int>(count / kPack);
    Launch(context, LayOutPacks<T>, GridFor(packs, kThreads), DeviceWindows(w), groups, packs, x, columns);
  } else {
    const ColumnGroups groups(w, first, 1);
    Launch(context, LayOutNumbers<T>, GridFor(count, kThreads, kPack), DeviceWindows(w), groups,
           static_cast<int>(count), x, columns);
  }
}

template <class T>
void Col2Im(CudaContext& context, const ImageWindows& w, const float* columns, float beta, T* x) {
  const auto gather = [&](auto wide) {
    const ImageGrid grid(w.samples, w.height, w.width, w.channels, wide());
    Launch(context, GatherColumns<T, wide()>, grid.grid(), grid, DeviceWindows(w), columns, beta, x);
  };
  WithGroup<T>(w.channels, gather, columns, x);
}

template void Im2Col(CudaContext&, const ImageWindows&, std::int64_t, std::int64_t, const float*, float*);
template void Im2Col(CudaContext&, const ImageWindows&, std::int64_t, std::int64_t, const Bf16*, Bf16*);
template void Im2Col(CudaContext&, const ImageWindows&, std::int64_t, std::int64_t, const Half*, Half*);
template void Col2Im(CudaContext&, const ImageWindows&, const float*, float, float*);
template void Col2Im(CudaContext&, const ImageWindows&, const float*, float, Bf16*);
template void Col2Im(CudaContext&, const ImageWindows&, const float*, float, Half*);

}  // namespace capstan::kernels
