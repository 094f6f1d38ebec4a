// The backward pass of attention on a device. Probabilities are recomputed twice, from q, k and log_sum: by blocks that
// own keys and add the gradients of k and v over the queries that see these keys, and by blocks that own queries and
// add the gradients of q. So no two blocks add to the same number.
//
// Launch: a block of Means has 256 threads and 32 rows of out. A block of Backward owns 64 keys or queries of one head
//         of one sequence (16, if the numbers are float and the head is wider than 64), and each of its warps owns 16
//         of them. The blocks with the most work come first. The rows that a block does not own come in tiles of 64 (of
//         16 for float, and for 16-bit numbers in heads wider than 64).
// Bytes:  out and dqkv once; qkv twice and dout three times. Each block also reads the rows that it does not own from
//         the L2 cache.
// Work:   14 * width operations and two e^x for each pair of query and key; with dropout also half a call of Philox.
#include <algorithm>

#include "kernels/attention.h"
#include "kernels/attention_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tiles.h"

namespace capstan::kernels {
namespace {

enum class Own { kKeys, kQueries };

// Heads narrower than kWidth are filled up with zeros.
template <class T, int in_width>
struct BackwardSizes {
  static constexpr bool kIsWide = in_width > 64, kIsFloat = std::is_same_v<T, float>;
  static constexpr int kWidth = in_width, kParts = kWidth / kTileSide;
  static constexpr int kWarps = kIsFloat && kIsWide ? 1 : 4;
  static constexpr int kThreads = 32 * kWarps, kOwned = kTileSide * kWarps;
  static constexpr int kOthers = kIsFloat || kIsWide ? 16 : 64;
  static constexpr int kPad = 16 / sizeof(T);
  static constexpr int kStride = kWidth + kPad;
  static constexpr int kSlopeStride = kTileSide + kPad;
  static constexpr bool kKeepsFactors = kIsFloat || !kIsWide;  // whether a warp keeps its owned rows in registers
  static constexpr int kPartsAtOnce = kKeepsFactors ? kParts : 2;
  static constexpr bool kSparesRegisters = kIsWide && std::is_same_v<T, Half>;  // else 255 registers are too few
};

template <class T>
struct BackwardTask {
  AttentionGradient<T> args;
  DroppedElements dropped;
  const float* means;  // [sequences, heads, length]: sum over keys of a probability times its gradient
  float scale;         // for the scores
  bool packed;
};

// ---- Means: dot(out, dout) of each row of the output ---------------------------------------------------------------

constexpr int kMeansThreads = 256, kThreadsOfRow = 8;

template <class T, bool kPacked>
__global__ void __launch_bounds__(kMeansThreads)
    Means(AttentionShape shape, const T* out, const T* dout, float* means) {
  const std::int64_t index = (static_cast<std::int64_t>(blockIdx.x) * kMeansThreads + threadIdx.x) / kThreadsOfRow;
  const std::int64_t width = shape.head_width, length = shape.length, heads = shape.heads;
  const bool is_there = index < shape.sequences * length * heads;
  constexpr int kStep = kPacked ? Pack<T>::kCount : 1;
  float sum = 0;
  for (std::int64_t i = threadIdx.x % kThreadsOfRow * kStep; is_there && i < width; i += kThreadsOfRow * kStep) {
    if constexpr (kPacked) {
      const Pack<T> a = LoadPack(out + index * width + i), b = LoadPack(dout + index * width + i);
      for (int j = 0; j < kStep; ++j) sum = fmaf(ToFloat(a.value[j]), ToFloat(b.value[j]), sum);
    } else {
      sum = fmaf(ToFloat(out[index * width + i]), ToFloat(dout[index * width + i]), sum);
    }
  }
  for (int with = kThreadsOfRow / 2; with > 0; with /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, with);
  if (!is_there || threadIdx.x % kThreadsOfRow != 0) return;
  const std::int64_t head = index % heads, place = index / heads % length, sequence = index / heads / length;
  means[(sequence * heads + head) * length + place] = sum;
}

// ---- Backward ------------------------------------------------------------------------------------------------------

// The left factors of a warp's products: 16 of the rows that the block owns, those of this warp.
template <class S, class T>
struct OwnedRows {
  __device__ __forceinline__ explicit OwnedRows(const Stored<T>* in_rows) : rows(in_rows) {
    for (int part = 0; part < (S::kKeepsFactors ? S::kParts : 0); ++part) {
      kept[part].Load(rows + part * kTileSide, S::kStride);
    }
  }
  __device__ __forceinline__ Left<T> operator[](int part) const {
    if constexpr (S::kKeepsFactors) return kept[part];
    Left<T> left;
    left.Load(rows + part * kTileSide, S::kStride);
    return left;
  }

  const Stored<T>* rows;
  Left<T> kept[S::kKeepsFactors ? S::kParts : 1];
};

// A tile of 16 x 16 scores, for 16 keys or queries that the warp owns (the tile's rows) and 16 queries or keys that the
// block does not own (the columns).
struct PairTile {
  int first_query, first_key, length;
  std::int64_t head_row;   // first row in log_sum
  const float* log2_sums;  // for the tile's queries
  const float* means;      // for the tile's queries
};

// Tells which probabilities of the tile are dropped. Each lane returns 8 bits: one for each of the 8 keys from lane % 2
// * 8 on, for query lane / 2 of the tile.
template <class T>
__device__ __forceinline__ unsigned DroppedOfTile(const BackwardTask<T>& task, const PairTile& pairs) {
  if (task.dropped.threshold == 0) return 0;
  const std::int64_t row = pairs.head_row + pairs.first_query + LaneInWarp() / 2;
  const int key = pairs.first_key + LaneInWarp() % 2 * 8;
  unsigned dropped = 0;
#pragma unroll 1  // registers are scarce
  for (int four = 0; four < 8; four += 4) dropped |= task.dropped.OfFour(row, key + four) << four;
  return dropped;
}

// Turns `scores`, the products of queries with keys, into probabilities after dropout. Turns `slopes`, the products of
// values with dout, into the gradient of the scores.
template <Own kOwn, class T>
__device__ __forceinline__ void SoftmaxBackward(const BackwardTask<T>& task, const PairTile& pairs,
                                                const WarpPlaces<T>& places, WarpTile<T>& scores, WarpTile<T>& slopes) {
  const unsigned all_dropped = DroppedOfTile(task, pairs);
  for (int i = 0; i < kTileElements; ++i) {
    const int query = kOwn == Own::kKeys ? places.Column(i) : places.Row(i);
    const int key = kOwn == Own::kKeys ? places.Row(i) : places.Column(i);
    bool dropped = false;
    if (task.dropped.threshold != 0) {
      dropped = (__shfl_sync(kWholeWarp, all_dropped, query * 2 + key / 8) >> (key % 8) & 1) != 0;
    }
    const bool seen = pairs.first_key + key <= pairs.first_query + query && pairs.first_query + query < pairs.length;
    const float p = exp2f(fmaf(scores[i], task.scale * kLog2OfE, -pairs.log2_sums[query]));
    const float dp = dropped ? 0.0F : slopes[i] * task.dropped.scale;
    scores[i] = seen && !dropped ? p * task.dropped.scale : 0.0F;
    slopes[i] = seen ? p * (dp - pairs.means[query]) * task.scale : 0.0F;
  }
}

// Computes sums += a * right. The tile a is first rounded to T in `scratch`, which belongs to the warp.
template <class S, class T>
__device__ __forceinline__ void AddRounded(WarpTile<T>& a, const WarpPlaces<T>& places, Stored<T>* scratch,
                                           const Stored<T>* right, WarpTile<T>* sums) {
  __syncwarp();
  StoreRounded(a, places, scratch, S::kSlopeStride);
  __syncwarp();
  Left<T> left;
  left.Load(scratch, S::kSlopeStride);
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
    AddProduct<Order::kRows>(sums[part], left, right + part * kTileSide, S::kStride);
  }
}

template <class S, class T>
__device__ __forceinline__ void LoadOthers(const GlobalRows<const T>& from, int thread, Stored<T>* to) {
  if constexpr (S::kSparesRegisters) {
    LoadRowsSparingly<S::kOthers, S::kWidth, S::kThreads, T>(from, thread, to, S::kStride);
  } else {
    LoadRows<S::kOthers, S::kWidth, S::kThreads, T>(from, thread, to, S::kStride);
  }
}

// Writes a warp's gradients to `to` by way of `scratch`, which is this warp's 16 of the block's rows in shared memory.
// No thread reads these rows any more: the last reads were before AddRounded's barriers.
template <class S, class T>
__device__ __forceinline__ void StoreGradient(WarpTile<T>* sums, const WarpPlaces<T>& places, Stored<T>* scratch,
                                              const GlobalRows<T>& to) {
  for (int part = 0; part < S::kParts; ++part) {
    StoreRounded(sums[part], places, scratch + part * kTileSide, S::kStride);
  }
  __syncwarp();
  StoreRows<kTileSide, S::kWidth, 32, T>(scratch, S::kStride, LaneInWarp(), to);
}

// Loads log2 of the sums of exponentials, and the means, of rows [first, first + kRows) of a head.
template <int kRows, int kThreads, class T>
__device__ __forceinline__ void LoadStatistics(const BackwardTask<T>& task, const DeviceHead& head, int first,
                                               float* log2_sums, float* means) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kThreads) {
    const bool is_there = first + i < task.args.shape.length;
    log2_sums[i] = is_there ? task.args.log_sum[head.row + first + i] * kLog2OfE : 0.0F;
    means[i] = is_there ? task.means[head.row + first + i] : 0.0F;
  }
}

// Rows of a head, from `first` on. Products of `scored` (queries or keys) are scores; products of `weighted` (dout for
// queries, values for keys) are the gradients of probabilities.
template <class T>
struct HeadRows {
  __device__ __forceinline__ HeadRows(const BackwardTask<T>& task, const DeviceHead& head, Own which, int first) {
    const int count = static_cast<int>(task.args.shape.length) - first;
    const int width = static_cast<int>(task.args.shape.head_width);
    const T* const q = task.args.qkv + head.qkv + first * head.qkv_stride;
    const T* const dout = task.args.dout + head.out + first * head.out_stride;
    scored = {which == Own::kKeys ? q + head.out_stride : q, head.qkv_stride, count, width, task.packed};
    weighted = {which == Own::kKeys ? q + 2 * head.out_stride : dout,
                which == Own::kKeys ? head.qkv_stride : head.out_stride, count, width, task.packed};
  }

  GlobalRows<const T> scored, weighted;
};

template <class T, int kWidth, Own kOwn>
__global__ void __launch_bounds__(BackwardSizes<T, kWidth>::kThreads, 2) Backward(BackwardTask<T> task) {
  using S = BackwardSizes<T, kWidth>;
  constexpr Own kOther = kOwn == Own::kKeys ? Own::kQueries : Own::kKeys;
  constexpr int kQueries = kOwn == Own::kKeys ? S::kOthers : S::kOwned;
  alignas(32) __shared__ Stored<T> own_scored[S::kOwned * S::kStride];
  alignas(32) __shared__ Stored<T> own_weighted[S::kOwned * S::kStride];
  alignas(32) __shared__ Stored<T> scored[S::kOthers * S::kStride];
  alignas(32) __shared__ Stored<T> weighted[S::kOthers * S::kStride];
  alignas(32) __shared__ Stored<T> scratch[S::kWarps * kTileSide * S::kSlopeStride];
  __shared__ float log2_sums[kQueries], means[kQueries];

  const AttentionShape& shape = task.args.shape;
  const unsigned heads = static_cast<unsigned>(shape.sequences * shape.heads), turn = blockIdx.x / heads;
  const DeviceHead head(shape, blockIdx.x % heads);
  const int length = static_cast<int>(shape.length), thread = static_cast<int>(threadIdx.x);
  const int tile = static_cast<int>(kOwn == Own::kKeys ? turn : gridDim.x / heads - 1 - turn);
  const int first_owned = tile * S::kOwned, warp = thread / 32, first = first_owned + warp * kTileSide;

  const HeadRows<T> own(task, head, kOwn, first_owned);
  LoadRows<S::kOwned, kWidth, S::kThreads, T>(own.scored, thread, own_scored, S::kStride);
  LoadRows<S::kOwned, kWidth, S::kThreads, T>(own.weighted, thread, own_weighted, S::kStride);
  if (kOwn == Own::kQueries) LoadStatistics<kQueries, S::kThreads>(task, head, first_owned, log2_sums, means);
  const WarpPlaces<T> places;  // except for float, its barrier also covers the rows above; for float, the loop's does
  const OwnedRows<S, T> own_score_rows(own_scored + warp * kTileSide * S::kStride);
  const OwnedRows<S, T> own_weight_rows(own_weighted + warp * kTileSide * S::kStride);
  Stored<T>* const own_scratch = scratch + warp * kTileSide * S::kSlopeStride;
  WarpTile<T> score_gradient[S::kParts], weight_gradient[S::kParts];  // of q or k; of v
  for (int part = 0; part < S::kParts; ++part) {
    score_gradient[part].Clear();
    weight_gradient[part].Clear();
  }

  const int begin = kOwn == Own::kKeys ? first_owned : 0;
  const int end = kOwn == Own::kKeys ? length : std::min(length, first_owned + S::kOwned);
  for (int first_other = begin; first_other < end; first_other += S::kOthers) {
    __syncthreads();
    const HeadRows<T> others(task, head, kOther, first_other);
    LoadOthers<S, T>(others.scored, thread, scored);
    LoadOthers<S, T>(others.weighted, thread, weighted);
    if (kOwn == Own::kKeys) LoadStatistics<kQueries, S::kThreads>(task, head, first_other, log2_sums, means);
    __syncthreads();
#pragma unroll 1
    for (int n = 0; n < S::kOthers; n += kTileSide) {
      const int first_query = kOwn == Own::kKeys ? first_other + n : first;
      const int first_key = kOwn == Own::kKeys ? first : first_other + n;
      if (first_key > first_query || first_query >= length) continue;
      const Stored<T>* const tile_scored = scored + n * S::kStride;
      const Stored<T>* const tile_weighted = weighted + n * S::kStride;
      WarpTile<T> scores, slopes;
      scores.Clear();
      slopes.Clear();
#pragma unroll S::kPartsAtOnce
      for (int part = 0; part < S::kParts; ++part) {
        AddProduct<Order::kColumns>(scores, own_score_rows[part], tile_scored + part * kTileSide, S::kStride);
      }
#pragma unroll S::kPartsAtOnce
      for (int part = 0; part < S::kParts; ++part) {
        AddProduct<Order::kColumns>(slopes, own_weight_rows[part], tile_weighted + part * kTileSide, S::kStride);
      }
      const int first_statistic = kOwn == Own::kKeys ? n : warp * kTileSide;
      SoftmaxBackward<kOwn>(
          task, {first_query, first_key, length, head.row, log2_sums + first_statistic, means + first_statistic},
          places, scores, slopes);
      if (kOwn == Own::kKeys) AddRounded<S>(scores, places, own_scratch, tile_weighted, weight_gradient);
      AddRounded<S>(slopes, places, own_scratch, tile_scored, score_gradient);
    }
  }

  T* const dq = task.args.dqkv + head.qkv + first * head.qkv_stride;
  const int width = static_cast<int>(shape.head_width);
  StoreGradient<S>(
      score_gradient, places, own_scored + warp * kTileSide * S::kStride,
      {kOwn == Own::kKeys ? dq + head.out_stride : dq, head.qkv_stride, length - first, width, task.packed});
  if (kOwn == Own::kQueries) return;
  StoreGradient<S>(weight_gradient, places, own_weighted + warp * kTileSide * S::kStride,
                   {dq + 2 * head.out_stride, head.qkv_stride, length - first, width, task.packed});
}

template <class T, int kWidth>
void BackwardOfWidth(CudaContext& context, const BackwardTask<T>& task) {
  using S = BackwardSizes<T, kWidth>;
  const Grid grid{dim3(static_cast<unsigned>(TilesOf(task.args.shape, S::kOwned))), dim3(S::kThreads)};
  Launch(context, Backward<T, kWidth, Own::kKeys>, grid, task);
  Launch(context, Backward<T, kWidth, Own::kQueries>, grid, task);
}

}  // namespace

template <class T>
void CausalAttentionBackward(CudaContext& context, const AttentionGradient<T>& args) {
  const AttentionShape& shape = args.shape;
  const std::int64_t rows = shape.sequences * shape.heads * shape.length;
  CAPSTAN_CHECK(shape.head_width >= 1 && shape.head_width <= 128);
  float* const means = context.Workspace<float>(static_cast<std::size_t>(rows));
  const bool packed = ArePacked(shape.head_width * std::int64_t{sizeof(T)}, args.qkv, args.out, args.dout, args.dqkv);
  Launch(context, packed ? Means<T, true> : Means<T, false>, GridFor(rows * kThreadsOfRow, kMeansThreads), shape,
         args.out, args.dout, means);
  const BackwardTask<T> task{.args = args,
                             .dropped = DroppedElements(args.dropout, shape.length),
                             .means = means,
                             .scale = ScoreScaleOf(shape),
                             .packed = packed};
  if (shape.head_width <= 32) return BackwardOfWidth<T, 32>(context, task);
  if (shape.head_width <= 64) return BackwardOfWidth<T, 64>(context, task);
  return BackwardOfWidth<T, 128>(context, task);
}

template void CausalAttentionBackward(CudaContext&, const AttentionGradient<float>&);
template void CausalAttentionBackward(CudaContext&, const AttentionGradient<Bf16>&);
template void CausalAttentionBackward(CudaContext&, const AttentionGradient<Half>&);

}  // namespace capstan::kernels
