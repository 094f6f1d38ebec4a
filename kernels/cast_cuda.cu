// Cast on a device. A thread converts eight numbers; 256 threads to a block. 6 bytes and one operation an element.
#include "kernels/cast.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 256;

// Converts elements [at, at + 8), or those of them below `count`.
template <class Narrow, bool kPacked, bool kToNarrow, class From, class To>
__device__ __forceinline__ void CastSome(std::int64_t at, std::int64_t count, const From* from, To* to) {
  constexpr int kCount = Pack<Narrow>::kCount;
  Pack<Narrow> pack{};
  Floats<Narrow> floats = {};
  if constexpr (kToNarrow) {
    LoadFloats<Narrow, kPacked>(from, at, count, floats);
    for (int j = 0; j < kCount; ++j) pack.value[j] = Rounded<Narrow>(floats[j]);
    StoreSome<Narrow, kPacked>(pack, to, at, count);
  } else {
    pack = LoadSome<Narrow, kPacked>(from, at, count);
    for (int j = 0; j < kCount; ++j) floats[j] = ToFloat(pack.value[j]);
    StoreFloats<Narrow, kPacked>(floats, to, at, count);
  }
}

template <class From, class To, bool kPacked>
__global__ void __launch_bounds__(kThreads) CastPacks(std::int64_t count, const From* from, To* to) {
  constexpr bool kToNarrow = kIs16Bit<To>;
  using Narrow = std::conditional_t<kToNarrow, To, From>;
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * Pack<Narrow>::kCount;
  if (at < count) CastSome<Narrow, kPacked, kToNarrow>(at, count, from, to);
}

}  // namespace

template <class From, class To>
void Cast(CudaContext& context, std::int64_t count, const From* from, To* to) {
  constexpr std::int64_t kCount = 8;
  const std::int64_t packed = ArePacked(0, from, to) ? count / kCount * kCount : 0, rest = count - packed;
  Launch(context, CastPacks<From, To, true>, GridFor(packed, kThreads, kCount), packed, from, to);
  Launch(context, CastPacks<From, To, false>, GridFor(rest, kThreads, kCount), rest, from + packed, to + packed);
}

template void Cast(CudaContext&, std::int64_t, const float*, Bf16*);
template void Cast(CudaContext&, std::int64_t, const float*, Half*);
template void Cast(CudaContext&, std::int64_t, const Bf16*, float*);
template void Cast(CudaContext&, std::int64_t, const Half*, float*);

}  // namespace capstan::kernels
