// The forward pass of attention on a device. A block owns queries of one head and goes over the keys up to its last
// query, tile by tile, with a running maximum and sum for each row (Dao et al., "FlashAttention-2", 2023).
//
// Launch: a block owns 64 queries of one head of one sequence (32, if the numbers are float and the head is wider than
//         64), and each of its warps owns 16 of them. The blocks with the most work come first. A tile has 64 keys, or
//         32 if the head is wider than 64; for float half as many.
// Bytes:  qkv and out once; keys and values are read again for each block of queries, from the L2 cache.
// Work:   4 * width operations and one e^x for each pair of query and key; with dropout also a quarter of a call of
//         Philox.
#include <algorithm>

#include "kernels/attention.h"
#include "kernels/attention_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tiles.h"

namespace capstan::kernels {
namespace {

// Heads narrower than kWidth are filled up with zeros.
template <class T, int in_width>
struct ForwardSizes {
  static constexpr bool kIsWide = in_width > 64, kIsFloat = std::is_same_v<T, float>;
  static constexpr int kWidth = in_width;
  static constexpr int kWarps = kIsFloat && kIsWide ? 2 : 4;
  static constexpr int kThreads = 32 * kWarps, kQueries = kTileSide * kWarps;
  static constexpr int kKeys = (kIsWide ? 32 : 64) / (kIsFloat ? 2 : 1);
  static constexpr int kQuads = kKeys / 8;  // quads of scores per thread
  static constexpr int kPad = 16 / sizeof(T);
  static constexpr int kStride = kWidth + kPad;                        // for keys and values
  static constexpr int kQueryStride = std::max(kWidth, kKeys) + kPad;  // for queries and probabilities
  static constexpr int kScoreStride = kKeys + 8;
};

template <class T>
struct ForwardTask {
  AttentionArgs<T> args;
  DroppedElements dropped;
  float exponent_scale;  // converts a product of query and key to an exponent of 2
  bool packed;
};

template <class T>
struct alignas(4 * sizeof(T)) Quad {
  T value[4];
};

// The softmax of a row over the keys so far: the largest score as an exponent of 2, and the sum of 2^(score - largest).
// Two threads share a row, and both hold the same values.
struct RunningRow {
  float largest = -INFINITY, sum = 0;
};

// Turns a row's scores into probabilities that are not yet divided by the row's sum. `query` counts from the tile's
// first key. Returns the factor by which the sums of earlier tiles are to be multiplied.
template <class S, class T>
__device__ __forceinline__ float SoftmaxStep(const ForwardTask<T>& task, int query, std::int64_t row,
                                             std::int64_t first_key, const float* scores, Stored<T>* probabilities,
                                             RunningRow& running) {
  const int half = LaneInWarp() % 2;
  float p[S::kQuads][4];
  float largest = running.largest;
  for (int j = 0; j < S::kQuads; ++j) {
    const int key = (2 * j + half) * 4;
    const Pack<float> four = LoadPack(scores + key);
    for (int i = 0; i < 4; ++i) {
      p[j][i] = key + i <= query ? four.value[i] * task.exponent_scale : -INFINITY;
      largest = fmaxf(largest, p[j][i]);
    }
  }
  largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
  float sum = 0;
  for (int j = 0; j < S::kQuads; ++j) {
    const int key = (2 * j + half) * 4;
    const unsigned dropped = task.dropped.threshold == 0 ? 0 : task.dropped.OfFour(row, first_key + key);
    Quad<Stored<T>> rounded;
    for (int i = 0; i < 4; ++i) {
      const float x = exp2f(p[j][i] - largest);
      sum += x;
      rounded.value[i] = ToStored(Rounded<T>((dropped >> i & 1) != 0 ? 0.0F : x));
    }
    *reinterpret_cast<Quad<Stored<T>>*>(probabilities + key) = rounded;
  }
  sum += __shfl_xor_sync(kWholeWarp, sum, 1);
  const float factor = exp2f(running.largest - largest);
  running.sum = fmaf(running.sum, factor, sum);
  running.largest = largest;
  return factor;
}

// Computes scores = q k' for a warp's queries and those keys of the tile that at least one of the queries sees. `last`
// is the last query, counted from the tile's first key.
template <class S, class T>
__device__ __forceinline__ void Scores(const Left<T>* queries, const Stored<T>* keys, const WarpPlaces<T>& places,
                                       int last, float* scores) {
  for (int n = 0; n < S::kKeys && n <= last; n += kTileSide) {
    WarpTile<T> tile;
    tile.Clear();
#pragma unroll
    for (int d = 0; d < S::kWidth; d += kTileSide) {
      AddProduct<Order::kColumns>(tile, queries[d / kTileSide], keys + n * S::kStride + d, S::kStride);
    }
    StoreSums(tile, places, scores + n, S::kScoreStride);
  }
}

// Computes out = out * factors + probabilities v.
template <class S, class T>
__device__ __forceinline__ void AddValues(const Stored<T>* probabilities, unsigned stride, const Stored<T>* values,
                                          const WarpPlaces<T>& places, const float* factors, int last,
                                          WarpTile<T>* out) {
  float factor[kTileElements];
  for (int i = 0; i < kTileElements; ++i) factor[i] = factors[places.Row(i)];
  for (int d = 0; d < S::kWidth / kTileSide; ++d) {
    for (int i = 0; i < kTileElements; ++i) out[d][i] *= factor[i];
  }
  for (int n = 0; n < S::kKeys && n <= last; n += kTileSide) {
    Left<T> left;
    left.Load(probabilities + n, stride);
#pragma unroll
    for (int d = 0; d < S::kWidth; d += kTileSide) {
      AddProduct<Order::kRows>(out[d / kTileSide], left, values + n * S::kStride + d, S::kStride);
    }
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(ForwardSizes<T, kWidth>::kThreads) Forward(ForwardTask<T> task) {
  using S = ForwardSizes<T, kWidth>;
  alignas(32) __shared__ Stored<T> queries[S::kQueries * S::kQueryStride];  // then 16-bit probabilities, and then out
  alignas(32) __shared__ Stored<T> keys[S::kKeys * S::kStride];
  alignas(32) __shared__ Stored<T> values[S::kKeys * S::kStride];
  alignas(32) __shared__ float scores[S::kQueries * S::kScoreStride];  // for float also the probabilities
  __shared__ float factors[S::kQueries];

  const AttentionShape& shape = task.args.shape;
  const std::int64_t heads = shape.sequences * shape.heads, tile = gridDim.x / heads - 1 - blockIdx.x / heads;
  const DeviceHead head(shape, blockIdx.x % heads);
  const int thread = static_cast<int>(threadIdx.x), first = thread / 32 * kTileSide, row = first + LaneInWarp() / 2;
  const std::int64_t first_query = tile * S::kQueries;
  const int width = static_cast<int>(shape.head_width), left = static_cast<int>(shape.length - first_query);
  const T* const q = task.args.qkv + head.qkv;

  LoadRows<S::kQueries, kWidth, S::kThreads, T>(
      {q + first_query * head.qkv_stride, head.qkv_stride, left, width, task.packed}, thread, queries, S::kQueryStride);
  const WarpPlaces<T> places;  // except for float, its barrier also covers the queries; for float, the loop's does
  Left<T> own_queries[kWidth / kTileSide];
#pragma unroll
  for (int d = 0; d < kWidth / kTileSide; ++d) {
    own_queries[d].Load(queries + first * S::kQueryStride + d * kTileSide, S::kQueryStride);
  }
  Stored<T>* probabilities = queries + first * S::kQueryStride;
  int probability_stride = S::kQueryStride;
  if constexpr (S::kIsFloat) {
    probabilities = scores + first * S::kScoreStride;
    probability_stride = S::kScoreStride;
  }
  WarpTile<T> out[kWidth / kTileSide];
  for (WarpTile<T>& part : out) part.Clear();
  RunningRow running;

  const std::int64_t end = std::min(shape.length, first_query + S::kQueries);
  for (std::int64_t first_key = 0; first_key < end; first_key += S::kKeys) {
    const int keys_left = static_cast<int>(shape.length - first_key);
    const T* const k = q + head.out_stride + first_key * head.qkv_stride;
    __syncthreads();
    LoadRows<S::kKeys, kWidth, S::kThreads, T>({k, head.qkv_stride, keys_left, width, task.packed}, thread, keys,
                                               S::kStride);
    LoadRows<S::kKeys, kWidth, S::kThreads, T>({k + head.out_stride, head.qkv_stride, keys_left, width, task.packed},
                                               thread, values, S::kStride);
    __syncthreads();
    const int ahead = static_cast<int>(first_query - first_key), last = ahead + first + kTileSide - 1;
    Scores<S, T>(own_queries, keys, places, last, scores + first * S::kScoreStride);
    __syncwarp();
    const float factor =
        SoftmaxStep<S, T>(task, ahead + row, head.row + first_query + row, first_key, scores + row * S::kScoreStride,
                          probabilities + (row - first) * probability_stride, running);
    if (LaneInWarp() % 2 == 0) factors[row] = factor;
    __syncwarp();
    AddValues<S, T>(probabilities, static_cast<unsigned>(probability_stride), values, places, factors + first, last,
                    out);
    __syncwarp();
  }

  if (LaneInWarp() % 2 == 0) {
    if (row < left) task.args.log_sum[head.row + first_query + row] = (running.largest + log2f(running.sum)) * kLn2;
    factors[row] = task.dropped.scale / running.sum;
  }
  __syncwarp();
  Stored<T>* const rounded = queries + first * S::kQueryStride;
#pragma unroll
  for (int d = 0; d < kWidth / kTileSide; ++d) {
    for (int i = 0; i < kTileElements; ++i) out[d][i] *= factors[first + places.Row(i)];
    StoreRounded(out[d], places, rounded + d * kTileSide, S::kQueryStride);
  }
  __syncwarp();
  StoreRows<kTileSide, kWidth, 32, T>(rounded, S::kQueryStride, LaneInWarp(),
                                      {task.args.out + head.out + (first_query + first) * head.out_stride,
                                       head.out_stride, left - first, width, task.packed});
}

template <class T, int kWidth>
void ForwardOfWidth(CudaContext& context, const ForwardTask<T>& task) {
  using S = ForwardSizes<T, kWidth>;
  const Grid grid{dim3(static_cast<unsigned>(TilesOf(task.args.shape, S::kQueries))), dim3(S::kThreads)};
  Launch(context, Forward<T, kWidth>, grid, task);
}

}  // namespace

template <class T>
void CausalAttention(CudaContext& context, const AttentionArgs<T>& args) {
  const std::int64_t width = args.shape.head_width;
  CAPSTAN_CHECK(width >= 1 && width <= 128);
  const ForwardTask<T> task{.args = args,
                            .dropped = DroppedElements(args.dropout, args.shape.length),
                            .exponent_scale = ScoreScaleOf(args.shape) * kLog2OfE,
                            .packed = ArePacked(width * std::int64_t{sizeof(T)}, args.qkv, args.out)};
  if (width <= 32) return ForwardOfWidth<T, 32>(context, task);
  if (width <= 64) return ForwardOfWidth<T, 64>(context, task);
  return ForwardOfWidth<T, 128>(context, task);
}

template void CausalAttention(CudaContext&, const AttentionArgs<float>&);
template void CausalAttention(CudaContext&, const AttentionArgs<Bf16>&);
template void CausalAttention(CudaContext&, const AttentionArgs<Half>&);

}  // namespace capstan::kernels
