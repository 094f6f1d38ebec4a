#include "kernels/cast.h"

#include <algorithm>

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTask = 65536;

}  // namespace

template <class From, class To>
void Cast(CpuContext& context, std::int64_t count, const From* from, To* to) {
  context.ParallelFor((count + kTask - 1) / kTask, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTask;
    const std::span<const From> part(from + first, static_cast<std::size_t>(std::min(kTask, count - first)));
    if constexpr (kIs16Bit<From>) {
      WidenAll(part, to + first);
    } else {
      NarrowAll(part, to + first);
    }
  });
}

template void Cast(CpuContext&, std::int64_t, const float*, Bf16*);
template void Cast(CpuContext&, std::int64_t, const float*, Half*);
template void Cast(CpuContext&, std::int64_t, const Bf16*, float*);
template void Cast(CpuContext&, std::int64_t, const Half*, float*);

}  // namespace capstan::kernels
