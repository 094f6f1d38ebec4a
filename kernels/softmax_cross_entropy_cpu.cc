#include <algorithm>

#include "kernels/base/elementary.h"
#include "kernels/lanes.h"
#include "kernels/softmax_cross_entropy.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskRows = 32;

struct RowLoss {
  double loss;
  std::int64_t correct;
};

template <class Real>
RowLoss Row(Real* logits, std::int64_t classes, std::int32_t target, Real gradient_scale) {
  const Real largest = Max(logits, classes);
  const Real wanted = logits[target];
  for (std::int64_t j = 0; j < classes; ++j) logits[j] = Exp(logits[j] - largest);
  const Real sum = Sum(logits, classes);
  const Real factor = gradient_scale / sum;
  for (std::int64_t j = 0; j < classes; ++j) logits[j] *= factor;
  logits[target] -= gradient_scale;
  return {static_cast<double>(Log(sum)) + static_cast<double>(largest - wanted), wanted == largest};
}

}  // namespace

template <class T>
void SoftmaxCrossEntropy(CpuContext& context, const SoftmaxCrossEntropyArgs<T>& args) {
  const std::int64_t lane_scratch = WideScratch<T>(args.classes);
  const std::size_t row_bytes = static_cast<std::size_t>(args.rows) * sizeof(RowLoss);
  std::byte* work = context.Workspace<std::byte>(
      row_bytes + static_cast<std::size_t>(lane_scratch * context.threads()) * sizeof(Wide<T>));
  RowLoss* rows = reinterpret_cast<RowLoss*>(work);
  Wide<T>* scratch = reinterpret_cast<Wide<T>*>(work + row_bytes);
  context.ParallelFor((args.rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t task, int lane) {
    const std::int64_t last = std::min(args.rows, (task + 1) * kTaskRows);
    for (std::int64_t row = task * kTaskRows; row < last; ++row) {
      T* logits = args.logits + row * args.stride;
      Wide<T>* wide = WideRowInPlace(logits, args.classes, scratch + lane * lane_scratch);
      rows[row] = Row(wide, args.classes, args.targets[row], args.gradient_scale);
      Round(wide, args.classes, logits);
    }
  });
  LossResult result;
  for (std::int64_t row = 0; row < args.rows; ++row) {
    result.loss += rows[row].loss;
    result.correct += rows[row].correct;
  }
  *args.result = result;
}

template void SoftmaxCrossEntropy(CpuContext&, const SoftmaxCrossEntropyArgs<float>&);
template void SoftmaxCrossEntropy(CpuContext&, const SoftmaxCrossEntropyArgs<double>&);
template void SoftmaxCrossEntropy(CpuContext&, const SoftmaxCrossEntropyArgs<Bf16>&);
template void SoftmaxCrossEntropy(CpuContext&, const SoftmaxCrossEntropyArgs<Half>&);

}  // namespace capstan::kernels
