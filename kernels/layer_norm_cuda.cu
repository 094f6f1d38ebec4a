// Layer norm on a device. Forward: blocks of 256 threads, eight warps with a row each or, if rows have more than
// kWarpColumns columns, all warps on one row. A thread holds up to kHeldElements of a row in registers. Only rows of
// more than 256 * kHeldElements columns are read more than once.
#include <algorithm>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/layer_norm.h"

namespace capstan::kernels {
namespace {

constexpr int kBlock = 256;
constexpr float kEpsilon = 1e-5F;
// In the backward pass a thread holds parts of two rows and of two sums. If a warp has a row, a block has only four
// warps, so that (for 16-bit numbers) three blocks fit on a multiprocessor.
constexpr int kBackwardWarps = 4;
template <int kThreads>
inline constexpr int kBackwardBlock = kThreads == 32 ? 32 * kBackwardWarps : kThreads;
// The most chunks of rows: three blocks for each of an H100's 132 multiprocessors. Chunks are so few that, if there are
// many rows, the partial sums are small next to the rows.
constexpr std::int64_t kChunksMax = 396;

// Whether the row has an element j. If rows are whole packs, every j that a thread asks for is inside.
template <bool kPacked>
__device__ __forceinline__ bool IsInside(std::int64_t j, std::int64_t columns) {
  return kPacked || j < columns;
}

template <class T, bool kPacked>
__device__ __forceinline__ Pack<T> AddSome(const ResidualLayerNormArgs<T>& args, std::int64_t row, std::int64_t at) {
  const std::int64_t begin = row * args.columns;
  Pack<T> pack = LoadSome<T, kPacked>(args.a + begin, at, args.columns);
  if (args.b == nullptr) return pack;
  const Pack<T> other = LoadSome<T, kPacked>(args.b + begin, at, args.columns);
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    pack.value[j] = Rounded<T>(ToFloat(pack.value[j]) + ToFloat(other.value[j]));
  }
  StoreSome<T, kPacked>(pack, args.sum + begin, at, args.columns);
  return pack;
}

// Computes y of one pack of x.
template <class T, bool kPacked>
__device__ __forceinline__ void NormaliseSome(const ResidualLayerNormArgs<T>& args, std::int64_t row, std::int64_t at,
                                              Pack<T> pack, float mean, float inverse) {
  const Pack<T> gamma = LoadSome<T, kPacked>(args.gamma, at, args.columns);
  const Pack<T> beta = LoadSome<T, kPacked>(args.beta, at, args.columns);
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float normed = (ToFloat(pack.value[j]) - mean) * inverse;
    pack.value[j] = Rounded<T>(fmaf(normed, ToFloat(gamma.value[j]), ToFloat(beta.value[j])));
  }
  StoreSome<T, kPacked>(pack, args.y + row * args.columns, at, args.columns);
}

// Computes sum and y of a row. Bytes: a, b, sum and y once; about 10 operations an element.
template <class T, int kThreads, bool kPacked>
__global__ void __launch_bounds__(kBlock) NormaliseRows(ResidualLayerNormArgs<T> args) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kThreads) + threadIdx.x / kThreads;
  if (row >= args.rows) return;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t columns = args.columns;
  const T* x = (args.b == nullptr ? args.a : args.sum) + row * columns;
  const auto again = [&](std::int64_t at) { return LoadSome<T, kPacked>(x, at, columns); };
  Pack<T> held[kHeldPacks<T>];
  ForPacks<T, kThreads>(
      columns, thread, [&](int k, std::int64_t at) { held[k] = AddSome<T, kPacked>(args, row, at); },
      [&](std::int64_t at) { (void)AddSome<T, kPacked>(args, row, at); });
  // Returns the mean over the row of x - center, or of its square.
  const auto sum_of = [&](float center, bool squared) {
    float sum = 0;
    const auto add = [&](const Pack<T>& pack, std::int64_t at) {
      for (int j = 0; j < Pack<T>::kCount; ++j) {
        const float x_j = ToFloat(pack.value[j]) - center;
        if (IsInside<kPacked>(at + j, columns)) sum += squared ? x_j * x_j : x_j;
      }
    };
    ForPacks<T, kThreads>(
        columns, thread, [&](int k, std::int64_t at) { add(held[k], at); },
        [&](std::int64_t at) { add(again(at), at); });
    return RowSum<kThreads>(sum) / static_cast<float>(columns);
  };
  const float mean = sum_of(0, false);
  const float inverse = 1.0F / sqrtf(sum_of(mean, true) + kEpsilon);
  ForPacks<T, kThreads>(
      columns, thread,
      [&](int k, std::int64_t at) { NormaliseSome<T, kPacked>(args, row, at, held[k], mean, inverse); },
      [&](std::int64_t at) { NormaliseSome<T, kPacked>(args, row, at, again(at), mean, inverse); });
  if (thread == 0) {
    args.mean[row] = mean;
    args.inverse_deviation[row] = inverse;
  }
}

// A pack of a row of x and of dy.
template <class T>
struct Slopes {
  Pack<T> x, dy;
};

template <class T, bool kPacked>
__device__ __forceinline__ Slopes<T> LoadSlopes(const LayerNormGradient<T>& g, std::int64_t row, std::int64_t at) {
  return {LoadSome<T, kPacked>(g.x + row * g.columns, at, g.columns),
          LoadSome<T, kPacked>(g.dy + row * g.columns, at, g.columns)};
}

// A row's mean and inverse deviation; `scaled` and `product` become the means of dy gamma, and of dy gamma times the
// normalised row.
struct RowOfBackward {
  std::int64_t row;
  float mean, inverse, scaled = 0, product = 0;
};

// Adds one pack to the row's two sums. For each of its elements calls gradient(j, dy * normalised x, dy), which adds to
// the sums of gamma and beta.
template <class T, bool kPacked, class Gradient>
__device__ __forceinline__ void AddSlopes(const LayerNormGradient<T>& g, std::int64_t at, const Slopes<T>& slopes,
                                          RowOfBackward& row, const Gradient& gradient) {
  const Pack<T> gamma = LoadSome<T, kPacked>(g.gamma, at, g.columns);
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float dy = ToFloat(slopes.dy.value[j]), normed = (ToFloat(slopes.x.value[j]) - row.mean) * row.inverse;
    const float scaled = dy * ToFloat(gamma.value[j]);
    row.scaled += scaled;
    row.product = fmaf(scaled, normed, row.product);
    gradient(j, dy * normed, dy);
  }
}

template <class T, bool kPacked>
__device__ __forceinline__ void StoreSlopes(const LayerNormGradient<T>& g, std::int64_t at, const Slopes<T>& slopes,
                                            const RowOfBackward& row) {
  const Pack<T> gamma = LoadSome<T, kPacked>(g.gamma, at, g.columns);
  T* const dx = g.dx + row.row * g.columns;
  Pack<T> out{};
  if (g.dx_beta != 0) out = LoadSome<T, kPacked>(dx, at, g.columns);
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float normed = (ToFloat(slopes.x.value[j]) - row.mean) * row.inverse;
    const float scaled = ToFloat(slopes.dy.value[j]) * ToFloat(gamma.value[j]);
    const float slope = (scaled - row.scaled - normed * row.product) * row.inverse;
    out.value[j] = Rounded<T>(g.dx_beta == 0 ? slope : g.dx_beta * ToFloat(out.value[j]) + slope);
  }
  StoreSome<T, kPacked>(out, dx, at, g.columns);
}

// A thread's sums over rows, for the columns that it holds.
struct HeldSums {
  float gamma[kHeldElements] = {}, beta[kHeldElements] = {};
};

// Adds the sums of a block's warps, in warp order. `out`: the sums over the block's chunk of rows, [2, columns]: first
// gamma's, then beta's.
template <class T>
__device__ __forceinline__ void AddWarps(const HeldSums& sums, std::int64_t columns, float* out) {
  __shared__ float shared[2][kWarpColumns];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int turn = 0; turn < kBackwardWarps; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int i = 0; i < kHeldElements; ++i) {
        constexpr int kCount = Pack<T>::kCount;
        const int column = (i / kCount * 32 + lane) * kCount + i % kCount;
        shared[0][column] = turn == 0 ? sums.gamma[i] : shared[0][column] + sums.gamma[i];
        shared[1][column] = turn == 0 ? sums.beta[i] : shared[1][column] + sums.beta[i];
      }
    }
    __syncthreads();
  }
  for (std::int64_t j = threadIdx.x; j < columns; j += 32 * kBackwardWarps) {
    out[j] = shared[0][j];
    out[columns + j] = shared[1][j];
  }
}

// Computes dx, and for each chunk of rows its part of the gradients of gamma and beta. A block has one chunk. With 32
// threads for a row, each of the four warps takes every fourth row, and the warps' sums are added in order at the end;
// otherwise the whole block takes one row after the other. Bytes: x, dy and dx once, and the sums. Operations: about 20
// for each element.
template <class T, int kThreads, bool kPacked>
__global__ void __launch_bounds__(kBackwardBlock<kThreads>, kThreads == 32 && kPacked && kIs16Bit<T> ? 3 : 1)
    RowsBackward(LayerNormGradient<T> g, std::int64_t chunk_rows, float* partial) {
  constexpr int kAtOnce = kBackwardBlock<kThreads> / kThreads, kCount = Pack<T>::kCount;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t columns = g.columns, begin = blockIdx.x * chunk_rows;
  const std::int64_t end = begin + chunk_rows < g.rows ? begin + chunk_rows : g.rows;
  float* const chunk_sums = partial + blockIdx.x * 2 * columns;
  HeldSums sums;
  for (std::int64_t index = begin + threadIdx.x / kThreads; index < end; index += kAtOnce) {
    RowOfBackward row{index, g.mean[index], g.inverse_deviation[index]};
    Slopes<T> held[kHeldPacks<T>];
    ForPacks<T, kThreads>(
        columns, thread, [&](int k, std::int64_t at) { held[k] = LoadSlopes<T, kPacked>(g, index, at); },
        [](std::int64_t) {});
    ForPacks<T, kThreads>(
        columns, thread,
        [&](int k, std::int64_t at) {
          AddSlopes<T, kPacked>(g, at, held[k], row, [&](int j, float of_gamma, float of_beta) {
            sums.gamma[k * kCount + j] += of_gamma;
            sums.beta[k * kCount + j] += of_beta;
          });
        },
        [&](std::int64_t at) {
          const Slopes<T> slopes = LoadSlopes<T, kPacked>(g, index, at);
          AddSlopes<T, kPacked>(g, at, slopes, row, [&](int j, float of_gamma, float of_beta) {
            if (!IsInside<kPacked>(at + j, columns)) return;
            float* const of_column = chunk_sums + at + j;
            of_column[0] = index == begin ? of_gamma : of_column[0] + of_gamma;
            of_column[columns] = index == begin ? of_beta : of_column[columns] + of_beta;
          });
        });
    row.scaled = RowSum<kThreads>(row.scaled) / static_cast<float>(columns);
    row.product = RowSum<kThreads>(row.product) / static_cast<float>(columns);
    ForPacks<T, kThreads>(
        columns, thread, [&](int k, std::int64_t at) { StoreSlopes<T, kPacked>(g, at, held[k], row); },
        [&](std::int64_t at) { StoreSlopes<T, kPacked>(g, at, LoadSlopes<T, kPacked>(g, index, at), row); });
  }
  if constexpr (kThreads == 32) {
    AddWarps<T>(sums, columns, chunk_sums);
  } else {
    ForPacks<T, kThreads>(
        columns, thread,
        [&](int k, std::int64_t at) {
#pragma unroll
          for (int j = 0; j < kCount; ++j) {
            if (!IsInside<kPacked>(at + j, columns)) continue;
            chunk_sums[at + j] = sums.gamma[k * kCount + j];
            chunk_sums[columns + at + j] = sums.beta[k * kCount + j];
          }
        },
        [](std::int64_t) {});
  }
}

}  // namespace

template <class T>
void ResidualLayerNorm(CudaContext& context, const ResidualLayerNormArgs<T>& args) {
  const bool packed = ArePacked(args.columns * static_cast<std::int64_t>(sizeof(T)), args.a, args.b, args.sum,
                                args.gamma, args.beta, args.y);
  if (args.columns <= kWarpColumns) {
    Launch(context, packed ? NormaliseRows<T, 32, true> : NormaliseRows<T, 32, false>, GridFor(args.rows * 32, kBlock),
           args);
  } else {
    Launch(context, packed ? NormaliseRows<T, kBlock, true> : NormaliseRows<T, kBlock, false>,
           GridFor(args.rows * kBlock, kBlock), args);
  }
}

template <class T>
void LayerNormBackward(CudaContext& context, const LayerNormGradient<T>& g) {
  const bool packed = ArePacked(g.columns * static_cast<std::int64_t>(sizeof(T)), g.x, g.gamma, g.dy, g.dx);
  const bool narrow = g.columns <= kWarpColumns;
  constexpr std::int64_t kRoundRows = kBackwardWarps * kChunksMax;  // rows that all chunks have at once
  const std::int64_t chunk_rows = std::max<std::int64_t>(1, (g.rows + kRoundRows - 1) / kRoundRows) * kBackwardWarps;
  const std::int64_t chunks = (g.rows + chunk_rows - 1) / chunk_rows;
  float* const partial = context.Workspace<float>(static_cast<std::size_t>(chunks * 2 * g.columns));
  Launch(context,
         narrow ? (packed ? RowsBackward<T, 32, true> : RowsBackward<T, 32, false>)
                : (packed ? RowsBackward<T, kBlock, true> : RowsBackward<T, kBlock, false>),
         {dim3(static_cast<unsigned>(chunks)), dim3(narrow ? kBackwardBlock<32> : kBackwardBlock<kBlock>)}, g,
         chunk_rows, partial);
  AddPartialSums(context, {.partial = partial,
                           .chunks = chunks,
                           .columns = g.columns,
                           .arrays = 2,
                           .beta = g.parameter_beta,
                           .out = {g.gamma_gradient, g.beta_gradient}});
}

template void ResidualLayerNorm(CudaContext&, const ResidualLayerNormArgs<float>&);
template void ResidualLayerNorm(CudaContext&, const ResidualLayerNormArgs<Bf16>&);
template void ResidualLayerNorm(CudaContext&, const ResidualLayerNormArgs<Half>&);
template void LayerNormBackward(CudaContext&, const LayerNormGradient<float>&);
template void LayerNormBackward(CudaContext&, const LayerNormGradient<Bf16>&);
template void LayerNormBackward(CudaContext&, const LayerNormGradient<Half>&);

}  // namespace capstan::kernels
