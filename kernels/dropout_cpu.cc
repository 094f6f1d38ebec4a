#include <algorithm>

#include "common/base/status.h"
#include "kernels/dropout.h"
#include "kernels/philox_batch.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTask = 16384;
constexpr std::int64_t kPiece = 8 * kPhiloxGroup;  // numbers on the stack at once

}  // namespace

template <class T>
void DropoutOnThisThread(const DropoutMask& mask, std::uint64_t first, std::int64_t count, T* x) {
  const auto threshold = static_cast<std::uint32_t>(mask.probability * 0x1p32);
  const auto scale = static_cast<Wide<T>>(1.0 / (1.0 - mask.probability));
  std::uint32_t bits[kPiece];
  Wide<T> scratch[WideScratch<T>(kPiece) + 1];
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - done);
    const std::int64_t rounded = (piece + kPhiloxGroup - 1) / kPhiloxGroup * kPhiloxGroup;
    PhiloxFill(mask.key, first + static_cast<std::uint64_t>(done), rounded, bits);
    Wide<T>* values = WideRowInPlace(x + done, piece, scratch);
    for (std::int64_t i = 0; i < piece; ++i) values[i] = bits[i] < threshold ? Wide<T>(0) : values[i] * scale;
    Round(values, piece, x + done);
  }
}

template <class T>
void Dropout(CpuContext& context, const DropoutMask& mask, std::int64_t count, T* x) {
  CAPSTAN_CHECK(mask.probability >= 0 && mask.probability < 1);
  if (mask.probability == 0) return;
  context.ParallelFor((count + kTask - 1) / kTask, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTask;
    DropoutOnThisThread(mask, static_cast<std::uint64_t>(first), std::min(kTask, count - first), x + first);
  });
}

template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, float*);
template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, double*);
template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, Bf16*);
template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, Half*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, float*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, double*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, Bf16*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, Half*);

}  // namespace capstan::kernels
