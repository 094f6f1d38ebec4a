// Batch norm on a device; its time is that of its bytes. Forward: x is read twice (for the statistics, then for y), the
// residual read and y written. Backward: x and dy are read and, with an activation, y is read and dy written; then x
// and dy are read and dx written. About 10 operations an element forward, 15 backward.
//
// Launch: a block of 256 threads owns a tile: 128 bytes of channels (8 threads of 16 bytes) of up to 256 rows, each
//         thread up to 8 rows. If rows are not aligned: 32 channels of up to 64 rows. A block writes the sums over its
//         rows (a chunk) to the workspace; then each block of 512 threads adds the chunks' sums of 8 channels.
// Order:  a thread's rows ascending, then the threads of a warp pairwise, then warps ascending; then chunks in 64
//         interleaved sums, added in the same way. Squares are about the mean of the chunk, whose rows stay in
//         registers, and are then moved to the mean of all rows (Chan, Golub, LeVeque, 1983). So x is not read again.
#include <algorithm>

#include "kernels/batch_norm.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"

namespace capstan::kernels {
namespace {

constexpr int kThreads = 256, kFinalThreads = 512, kFinalAcross = 8;
constexpr int kRowsEachMax = 8, kRowsAtOnce = 4, kGradientRowsAtOnce = 2;  // as many as registers have room for
constexpr std::int64_t kBlocksWanted = 264;  // two for each multiprocessor of an H100; affects the order of sums
constexpr float kEpsilon = 1e-5F;

// How a block's threads are arranged: kAcross of them next to each other in a row, in kDown rows.
template <int kWide>
constexpr int kAcross = kWide == 1 ? 32 : 8;
template <int kWide>
constexpr int kDown = kThreads / kAcross<kWide>;

// How rows and channels are cut into tiles.
struct Cut {
  std::int64_t rows = 0, chunks = 0, chunk_rows = 0;
  int channels = 0, rows_each = 0;
  int across = 0;  // tiles that cover all channels
};

template <int kWide>
Cut CutRows(std::int64_t rows, std::int64_t channels) {
  const std::int64_t tile = kAcross<kWide> * kWide, across = (channels + tile - 1) / tile;
  const std::int64_t each =
      std::clamp<std::int64_t>(rows * across / (kDown<kWide> * kBlocksWanted), 1, std::int64_t{kRowsEachMax});
  const std::int64_t chunk_rows = kDown<kWide> * each;
  return {.rows = rows,
          .chunks = (rows + chunk_rows - 1) / chunk_rows,
          .chunk_rows = chunk_rows,
          .channels = static_cast<int>(channels),
          .rows_each = static_cast<int>(each),
          .across = static_cast<int>(across)};
}

Grid GridOf(const Cut& cut) { return {dim3(static_cast<unsigned>(cut.chunks * cut.across)), dim3(kThreads)}; }

// The calling thread's part of the tile: kWide channels from `channel` on, in rows that are kDown apart.
template <int kWide>
struct Place {
  __device__ __forceinline__ Place(const Cut& cut, unsigned block)
      : chunk(block / static_cast<unsigned>(cut.across)),
        channel((static_cast<int>(block % static_cast<unsigned>(cut.across)) * kAcross<kWide> +
                 static_cast<int>(threadIdx.x) % kAcross<kWide>)*kWide),
        down(static_cast<int>(threadIdx.x) / kAcross<kWide>),
        first(chunk * cut.chunk_rows + down),
        has_channel(channel < cut.channels) {}
  __device__ __forceinline__ bool Has(const Cut& cut, int i) const {
    return has_channel && i < cut.rows_each && first + i * kDown<kWide> < cut.rows;
  }
  __device__ __forceinline__ std::int64_t At(const Cut& cut, int i) const {
    return (first + i * kDown<kWide>)*cut.channels + channel;
  }
  std::int64_t chunk;
  int channel, down;
  std::int64_t first;
  bool has_channel;
};

// Returns the tile of this block. Blocks go from the last tile to the first, because the tiles read last may still be
// in the cache.
__device__ __forceinline__ unsigned BackwardBlock() { return gridDim.x - 1 - blockIdx.x; }

// Replaces sum[j] by its sum over all threads with the same channels. All threads of the block must call it.
template <int kBlock, int kBeside, int kWide>
__device__ __forceinline__ void SumDown(float (&sum)[kWide]) {
  __shared__ float of_warp[kBlock / 32][kBeside * kWide];
  const int warp = static_cast<int>(threadIdx.x) / 32, across = static_cast<int>(threadIdx.x) % kBeside;
  for (int j = 0; j < kWide; ++j) {
    for (int with = 16; with >= kBeside; with /= 2) sum[j] += __shfl_xor_sync(kWholeWarp, sum[j], with);
  }
  if (threadIdx.x % 32 < kBeside) {
    for (int j = 0; j < kWide; ++j) of_warp[warp][across * kWide + j] = sum[j];
  }
  __syncthreads();
  for (int j = 0; j < kWide; ++j) {
    sum[j] = of_warp[0][across * kWide + j];
    for (int i = 1; i < kBlock / 32; ++i) sum[j] += of_warp[i][across * kWide + j];
  }
  __syncthreads();  // the next call writes of_warp again
}

// Returns where a chunk's sums lie in `partial` [chunks, 2, channels]; `which` is 0 or 1.
__device__ __forceinline__ float* PartialAt(const Cut& cut, float* partial, std::int64_t chunk, int which) {
  return partial + (2 * chunk + which) * cut.channels;
}

template <int kWide>
__device__ __forceinline__ void StorePartial(const Cut& cut, const Place<kWide>& at, int which,
                                             const float (&sum)[kWide], float* partial) {
  if (at.down != 0 || !at.has_channel) return;
  for (int j = 0; j < kWide; ++j) PartialAt(cut, partial, at.chunk, which)[at.channel + j] = sum[j];
}

// Returns the number of rows in a chunk; the last chunk may have fewer.
__device__ __forceinline__ float RowsOf(const Cut& cut, std::int64_t chunk) {
  const std::int64_t left = cut.rows - chunk * cut.chunk_rows;
  return static_cast<float>(left < cut.chunk_rows ? left : cut.chunk_rows);
}

template <class T, int kWide>
__global__ void __launch_bounds__(kThreads, 2) ChunkMoments(Cut cut, const T* x, float* partial) {
  const Place<kWide> at(cut, blockIdx.x);
  Group<T, kWide> kept[kRowsEachMax] = {};
  for (int i = 0; i < kRowsEachMax; ++i) {
    if (at.Has(cut, i)) kept[i] = LoadGroup<kWide>(x + at.At(cut, i));
  }
  float sum[kWide] = {}, squares[kWide] = {};
  for (int i = 0; i < kRowsEachMax; ++i) {
    for (int j = 0; j < kWide; ++j) sum[j] += ToFloat(kept[i].value[j]);
  }
  SumDown<kThreads, kAcross<kWide>>(sum);
  const float count = RowsOf(cut, at.chunk);
  for (int j = 0; j < kWide; ++j) {
    const float mean = sum[j] / count;
    for (int i = 0; i < kRowsEachMax; ++i) {
      const float d = at.Has(cut, i) ? ToFloat(kept[i].value[j]) - mean : 0.0F;
      squares[j] = fmaf(d, d, squares[j]);
    }
  }
  SumDown<kThreads, kAcross<kWide>>(squares);
  StorePartial(cut, at, 0, sum, partial);
  StorePartial(cut, at, 1, squares, partial);
}

// Computes out = beta * out + value.
__device__ __forceinline__ void Blend(float beta, float value, float* out) {
  *out = beta == 0 ? value : beta * *out + value;
}

__device__ __forceinline__ float InverseDeviation(float variance) { return 1.0F / sqrtf(variance + kEpsilon); }

// Returns the sum of get(chunk, channel) over the chunks, for this thread's channel; the grid is that of FinalGrid.
template <class Get>
__device__ __forceinline__ float SumChunks(const Cut& cut, const Get& get) {
  float sum[1] = {};
  const int channel = static_cast<int>(blockIdx.x) * kFinalAcross + static_cast<int>(threadIdx.x) % kFinalAcross;
  constexpr int kStep = kFinalThreads / kFinalAcross;
  if (channel < cut.channels) {
    for (std::int64_t chunk = threadIdx.x / kFinalAcross; chunk < cut.chunks; chunk += kStep) {
      sum[0] += get(chunk, channel);
    }
  }
  SumDown<kFinalThreads, kFinalAcross>(sum);
  return sum[0];
}

Grid FinalGrid(const Cut& cut) { return {GridFor(cut.channels, kFinalAcross).blocks, dim3(kFinalThreads)}; }

template <class T>
__global__ void __launch_bounds__(kFinalThreads) FinishMoments(Cut cut, BatchNormArgs<T> args, float* partial) {
  const auto rows = static_cast<float>(cut.rows);
  const float mean =
      SumChunks(cut, [&](std::int64_t chunk, int j) { return PartialAt(cut, partial, chunk, 0)[j]; }) / rows;
  const float squares = SumChunks(cut, [&](std::int64_t chunk, int j) {
    const float count = RowsOf(cut, chunk), off = PartialAt(cut, partial, chunk, 0)[j] / count - mean;
    return fmaf(count * off, off, PartialAt(cut, partial, chunk, 1)[j]);
  });
  const int channel = static_cast<int>(blockIdx.x) * kFinalAcross + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= kFinalAcross || channel >= cut.channels) return;
  const float others = cut.rows > 1 ? static_cast<float>(cut.rows - 1) : 1.0F;
  args.mean[channel] = mean;
  args.inverse_deviation[channel] = InverseDeviation(squares / rows);
  if (args.mean_average == nullptr) return;
  Blend(args.average_beta, args.share * mean, args.mean_average + channel);
  Blend(args.average_beta, args.share * (squares / others), args.variance_average + channel);
}

enum class Spread : std::uint8_t { kInverseDeviation, kVariance };

// Computes y = activation((x - mean) * inverse deviation * gamma + beta + residual).
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads, 2)
    Normalise(Cut cut, BatchNormArgs<T> args, const float* mean, const float* spread, Spread kind) {
  const Place<kWide> at(cut, BackwardBlock());
  if (!at.has_channel) return;
  const auto m = LoadGroup<kWide>(mean + at.channel);
  const auto gamma = LoadFloats<kWide>(args.gamma + at.channel), beta = LoadFloats<kWide>(args.beta + at.channel);
  auto inverse = LoadGroup<kWide>(spread + at.channel);
  if (kind == Spread::kVariance) {
    for (int j = 0; j < kWide; ++j) inverse.value[j] = InverseDeviation(inverse.value[j]);
  }
  const auto store = [&](std::int64_t offset, const Group<T, kWide>& in, const Group<T, kWide>& residual) {
    Group<float, kWide> out;
    for (int j = 0; j < kWide; ++j) {
      const float normed = (ToFloat(in.value[j]) - m.value[j]) * inverse.value[j];
      float v = fmaf(normed, gamma.value[j], beta.value[j]);
      if (args.residual != nullptr) v += ToFloat(residual.value[j]);
      out.value[j] = args.activation == Activation::kRelu && v < 0 ? 0.0F : v;  // NaN stays
    }
    StoreRounded(args.y + offset, out);
  };
  for (int i = 0; i < cut.rows_each; i += kRowsAtOnce) {
    Group<T, kWide> in[kRowsAtOnce] = {}, residual[kRowsAtOnce] = {};
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (!at.Has(cut, i + k)) continue;
      in[k] = LoadGroup<kWide>(args.x + at.At(cut, i + k));
      if (args.residual != nullptr) residual[k] = LoadGroup<kWide>(args.residual + at.At(cut, i + k));
    }
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (at.Has(cut, i + k)) store(at.At(cut, i + k), in[k], residual[k]);
    }
  }
}

// Multiplies dy by the activation's derivative, in place, and computes for each chunk the sums of dy * normalised x,
// and of dy.
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads, 2) ChunkGradients(Cut cut, BatchNormGradient<T> g, float* partial) {
  const Place<kWide> at(cut, blockIdx.x);
  Group<float, kWide> mean = {}, inverse = {};
  if (at.has_channel) {
    mean = LoadGroup<kWide>(g.mean + at.channel);
    inverse = LoadGroup<kWide>(g.inverse_deviation + at.channel);
  }
  const bool relu = g.activation == Activation::kRelu;
  float gamma_sum[kWide] = {}, beta_sum[kWide] = {};
  for (int i = 0; i < cut.rows_each; i += kGradientRowsAtOnce) {
    Group<T, kWide> x[kGradientRowsAtOnce] = {}, y[kGradientRowsAtOnce] = {}, dy[kGradientRowsAtOnce] = {};
    for (int k = 0; k < kGradientRowsAtOnce; ++k) {
      if (!at.Has(cut, i + k)) continue;
      const std::int64_t offset = at.At(cut, i + k);
      x[k] = LoadGroup<kWide>(g.x + offset);
      dy[k] = LoadGroup<kWide>(g.dy + offset);
      if (relu) y[k] = LoadGroup<kWide>(g.y + offset);
    }
    for (int k = 0; k < kGradientRowsAtOnce; ++k) {
      if (!at.Has(cut, i + k)) continue;
      for (int j = 0; j < kWide; ++j) {
        if (relu && !(ToFloat(y[k].value[j]) > 0)) dy[k].value[j] = T{};
        const float d = ToFloat(dy[k].value[j]);
        gamma_sum[j] = fmaf(d, (ToFloat(x[k].value[j]) - mean.value[j]) * inverse.value[j], gamma_sum[j]);
        beta_sum[j] += d;
      }
      if (relu) StoreGroup(g.dy + at.At(cut, i + k), dy[k]);
    }
  }
  SumDown<kThreads, kAcross<kWide>>(gamma_sum);
  SumDown<kThreads, kAcross<kWide>>(beta_sum);
  StorePartial(cut, at, 0, gamma_sum, partial);
  StorePartial(cut, at, 1, beta_sum, partial);
}

// Adds the sums of all chunks: the results are the gradients of gamma and beta. Divided by the number of rows they go
// to `means` [2, channels].
template <class T>
__global__ void __launch_bounds__(kFinalThreads)
    FinishGradients(Cut cut, BatchNormGradient<T> g, float* partial, float* means) {
  const auto rows = static_cast<float>(cut.rows);
  const float gamma = SumChunks(cut, [&](std::int64_t chunk, int j) { return PartialAt(cut, partial, chunk, 0)[j]; });
  const float beta = SumChunks(cut, [&](std::int64_t chunk, int j) { return PartialAt(cut, partial, chunk, 1)[j]; });
  const int channel = static_cast<int>(blockIdx.x) * kFinalAcross + static_cast<int>(threadIdx.x);
  if (threadIdx.x >= kFinalAcross || channel >= cut.channels) return;
  Blend(g.parameter_beta, gamma, g.gamma_gradient + channel);
  Blend(g.parameter_beta, beta, g.beta_gradient + channel);
  means[channel] = gamma / rows;
  means[cut.channels + channel] = beta / rows;
}

// Computes dx = gamma / deviation * (dy - mean(dy) - n * mean(dy * n)), where n is x normalised.
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads, 2) InputGradient(Cut cut, BatchNormGradient<T> g, const float* means) {
  const Place<kWide> at(cut, BackwardBlock());
  if (!at.has_channel) return;
  const auto mean = LoadGroup<kWide>(g.mean + at.channel);
  const auto inverse = LoadGroup<kWide>(g.inverse_deviation + at.channel);
  const auto mean_product = LoadGroup<kWide>(means + at.channel);
  const auto mean_dy = LoadGroup<kWide>(means + cut.channels + at.channel);
  auto scale = LoadFloats<kWide>(g.gamma + at.channel);
  for (int j = 0; j < kWide; ++j) scale.value[j] *= inverse.value[j];
  for (int i = 0; i < cut.rows_each; i += kRowsAtOnce) {
    Group<T, kWide> x[kRowsAtOnce] = {}, dy[kRowsAtOnce] = {};
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (!at.Has(cut, i + k)) continue;
      x[k] = LoadGroup<kWide>(g.x + at.At(cut, i + k));
      dy[k] = LoadGroup<kWide>(g.dy + at.At(cut, i + k));
    }
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (!at.Has(cut, i + k)) continue;
      Group<float, kWide> dx;
      for (int j = 0; j < kWide; ++j) {
        const float normed = (ToFloat(x[k].value[j]) - mean.value[j]) * inverse.value[j];
        dx.value[j] = (ToFloat(dy[k].value[j]) - mean_dy.value[j] - normed * mean_product.value[j]) * scale.value[j];
      }
      StoreRounded(g.dx + at.At(cut, i + k), dx);
    }
  }
}

template <class T, int kWide>
void Forward(CudaContext& context, const BatchNormArgs<T>& args) {
  const Cut cut = CutRows<kWide>(args.rows, args.channels);
  auto* partial = context.Workspace<float>(static_cast<std::size_t>(2 * cut.chunks * args.channels));
  Launch(context, ChunkMoments<T, kWide>, GridOf(cut), cut, args.x, partial);
  Launch(context, FinishMoments<T>, FinalGrid(cut), cut, args, partial);
  Launch(context, Normalise<T, kWide>, GridOf(cut), cut, args, args.mean, args.inverse_deviation,
         Spread::kInverseDeviation);
}

template <class T, int kWide>
void Backward(CudaContext& context, const BatchNormGradient<T>& g) {
  const Cut cut = CutRows<kWide>(g.rows, g.channels);
  const std::int64_t partials = 2 * cut.chunks * g.channels;  // `means` is behind them
  auto* partial = context.Workspace<float>(static_cast<std::size_t>(partials + 2 * g.channels));
  float* const means = partial + partials;
  Launch(context, ChunkGradients<T, kWide>, GridOf(cut), cut, g, partial);
  Launch(context, FinishGradients<T>, FinalGrid(cut), cut, g, partial, means);
  Launch(context, InputGradient<T, kWide>, GridOf(cut), cut, g, means);
}

}  // namespace

template <class T>
void BatchNorm(CudaContext& context, const BatchNormArgs<T>& args) {
  WithGroup<T>(
      args.channels, [&](auto wide) { Forward<T, wide()>(context, args); }, args.x, args.gamma, args.beta,
      args.residual, args.y, args.mean, args.inverse_deviation);
}

template <class T>
void BatchNormEvaluate(CudaContext& context, const BatchNormArgs<T>& args, const Wide<T>* mean,
                       const Wide<T>* variance) {
  const auto evaluate = [&](auto wide) {
    const Cut cut = CutRows<wide()>(args.rows, args.channels);
    Launch(context, Normalise<T, wide()>, GridOf(cut), cut, args, mean, variance, Spread::kVariance);
  };
  WithGroup<T>(args.channels, evaluate, args.x, args.gamma, args.beta, args.residual, args.y, mean, variance);
}

template <class T>
void BatchNormBackward(CudaContext& context, const BatchNormGradient<T>& g) {
  WithGroup<T>(
      g.channels, [&](auto wide) { Backward<T, wide()>(context, g); }, g.x, g.mean, g.inverse_deviation, g.gamma, g.y,
      g.dy, g.dx);
}

template void BatchNorm(CudaContext&, const BatchNormArgs<float>&);
template void BatchNorm(CudaContext&, const BatchNormArgs<Bf16>&);
template void BatchNorm(CudaContext&, const BatchNormArgs<Half>&);
template void BatchNormEvaluate(CudaContext&, const BatchNormArgs<float>&, const float*, const float*);
template void BatchNormEvaluate(CudaContext&, const BatchNormArgs<Bf16>&, const float*, const float*);
template void BatchNormEvaluate(CudaContext&, const BatchNormArgs<Half>&, const float*, const float*);
template void BatchNormBackward(CudaContext&, const BatchNormGradient<float>&);
template void BatchNormBackward(CudaContext&, const BatchNormGradient<Bf16>&);
template void BatchNormBackward(CudaContext&, const BatchNormGradient<Half>&);

}  // namespace capstan::kernels
