// The backward pass of bias and activation on a device. Blocks have eight warps; a warp has a group of 64 rows and 32
// packs of columns. Bytes: dy is read and, with an activation, x read and dx written; the sums are one float for each
// 64 elements. About 20 operations an element for GELU.
#include "kernels/activation_math.h"
#include "kernels/bias_activation.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace capstan::kernels {
namespace {

constexpr int kBlock = 256;
constexpr std::int64_t kRowGroup = 64;  // as on a CPU
constexpr int kRowsAtOnce = 4;          // rows read before the first is used

template <class T, Activation kActivation>
__device__ __forceinline__ float SlopeOf(T x, float dy) {
  const float wide = ToFloat(x);
  if constexpr (kActivation == Activation::kRelu) return wide > 0 ? dy : 0.0F;
  if constexpr (kActivation == Activation::kGelu) return dy * GeluDerivative(wide, SigmoidOf<T>(GeluArgument(wide)));
  return dy;
}

template <class T, Activation kActivation, bool kPacked>
__global__ void __launch_bounds__(kBlock) BackwardGroups(BiasActivationGradient<T> g, float* partial) {
  constexpr bool kActive = kActivation != Activation::kNone;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * (kBlock / 32) + threadIdx.x / 32;
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.y) * 32 + threadIdx.x % 32) * Pack<T>::kCount;
  const std::int64_t columns = g.columns, begin = group * kRowGroup;
  if (begin >= g.rows || at >= columns) return;
  const std::int64_t end = begin + kRowGroup < g.rows ? begin + kRowGroup : g.rows;
  Floats<T> sums = {};
  for (std::int64_t first = begin; first < end; first += kRowsAtOnce) {
    Pack<T> dy[kRowsAtOnce] = {}, x[kRowsAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (first + i >= end) continue;
      dy[i] = LoadSome<T, kPacked>(g.dy + (first + i) * columns, at, columns);
      if constexpr (kActive) x[i] = LoadSome<T, kPacked>(g.x + (first + i) * columns, at, columns);
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (first + i >= end) continue;
      for (int j = 0; j < Pack<T>::kCount; ++j) {
        const float dx = SlopeOf<T, kActivation>(x[i].value[j], ToFloat(dy[i].value[j]));
        sums[j] += dx;
        dy[i].value[j] = Rounded<T>(dx);
      }
      if constexpr (kActive) StoreSome<T, kPacked>(dy[i], g.dy + (first + i) * columns, at, columns);
    }
  }
  StoreFloats<T, kPacked>(sums, partial + group * columns, at, columns);
}

template <class T, bool kPacked>
auto KernelFor(Activation activation) {
  return activation == Activation::kGelu   ? BackwardGroups<T, Activation::kGelu, kPacked>
         : activation == Activation::kRelu ? BackwardGroups<T, Activation::kRelu, kPacked>
                                           : BackwardGroups<T, Activation::kNone, kPacked>;
}

}  // namespace

template <class T>
void BiasActivationBackward(CudaContext& context, const BiasActivationGradient<T>& g) {
  const std::int64_t columns = g.columns, groups = (g.rows + kRowGroup - 1) / kRowGroup;
  float* const partial = context.Workspace<float>(static_cast<std::size_t>(groups * columns));
  const bool packed = ArePacked(columns * static_cast<std::int64_t>(sizeof(T)), g.x, g.dy);
  const std::int64_t of_warp = 32 * Pack<T>::kCount;
  Grid grid = GridFor(groups * 32, kBlock);
  grid.blocks.y = static_cast<unsigned>((columns + of_warp - 1) / of_warp);
  Launch(context, packed ? KernelFor<T, true>(g.activation) : KernelFor<T, false>(g.activation), grid, g, partial);
  AddPartialSums(context, {.partial = partial,
                           .chunks = groups,
                           .columns = columns,
                           .arrays = 1,
                           .beta = g.beta,
                           .out = {g.bias_gradient, nullptr}});
}

template void BiasActivationBackward(CudaContext&, const BiasActivationGradient<float>&);
template void BiasActivationBackward(CudaContext&, const BiasActivationGradient<Bf16>&);
template void BiasActivationBackward(CudaContext&, const BiasActivationGradient<Half>&);

}  // namespace capstan::kernels
