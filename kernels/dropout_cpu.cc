#include <algorithm>

#include "common/status.h"
#include "kernels/dropout.h"
#include "kernels/philox_batch.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTask = 16384;
constexpr std::int64_t kPiece = 8 * kPhiloxGroup;  // numbers on the stack at once

}  // namespace

template <class Real>
void DropoutOnThisThread(const DropoutMask& mask, std::uint64_t first, std::int64_t count, Real* x) {
  const auto threshold = static_cast<std::uint32_t>(mask.probability * 0x1p32);
  const Real scale = static_cast<Real>(1.0 / (1.0 - mask.probability));
  std::uint32_t bits[kPiece];
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - done);
    const std::int64_t rounded = (piece + kPhiloxGroup - 1) / kPhiloxGroup * kPhiloxGroup;
    PhiloxFill(mask.key, first + static_cast<std::uint64_t>(done), rounded, bits);
    Real* values = x + done;
    for (std::int64_t i = 0; i < piece; ++i) values[i] = bits[i] < threshold ? Real(0) : values[i] * scale;
  }
}

template <class Real>
void Dropout(CpuContext& context, const DropoutMask& mask, std::int64_t count, Real* x) {
  CAPSTAN_CHECK(mask.probability >= 0 && mask.probability < 1);
  if (mask.probability == 0) return;
  context.ParallelFor((count + kTask - 1) / kTask, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTask;
    DropoutOnThisThread(mask, static_cast<std::uint64_t>(first), std::min(kTask, count - first), x + first);
  });
}

template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, float*);
template void DropoutOnThisThread(const DropoutMask&, std::uint64_t, std::int64_t, double*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, float*);
template void Dropout(CpuContext&, const DropoutMask&, std::int64_t, double*);

}  // namespace capstan::kernels
