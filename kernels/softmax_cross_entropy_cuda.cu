// The loss on a device. A warp has a row of at most kWarpColumns classes, eight rows to a block of 256 threads; a
// longer row has a block of 512. Bytes: the logits are read twice, the second time from the caches, and written once;
// two exponentials an element. Then one block of 1024 threads adds the rows' results in the workspace, 16 bytes each.
#include <limits>

#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/softmax_cross_entropy.h"

namespace capstan::kernels {
namespace {

constexpr int kNarrowBlock = 256, kWideBlock = 512, kSumBlock = 1024;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct RowLoss {
  double loss;
  std::int64_t correct;
};

// The largest of some logits, and the sum of e^(logit - largest) over them.
struct SoftmaxSum {
  float largest = kLowest, sum = 0;
};

// Adds a pack to the sum. Only its first `inside` elements belong to the row. NaN is never the largest, but makes the
// sum NaN.
template <class T, bool kPacked>
__device__ __forceinline__ void AddSome(const Pack<T>& pack, std::int64_t inside, SoftmaxSum& so_far) {
  float largest = so_far.largest;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    if (kPacked || j < inside) largest = fmaxf(largest, ToFloat(pack.value[j]));
  }
  if (largest > so_far.largest) {
    so_far.sum *= ExpOf<T>(so_far.largest - largest);
    so_far.largest = largest;
  }
  const float center = largest == kLowest ? 0.0F : largest;  // so that -infinity adds 0
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    if (kPacked || j < inside) so_far.sum += ExpOf<T>(ToFloat(pack.value[j]) - center);
  }
}

template <class T, int kThreads, bool kPacked>
__global__ void __launch_bounds__(kThreads == 32 ? kNarrowBlock : kThreads, kThreads > 32 && kPacked ? 3 : 1)
    LossRows(SoftmaxCrossEntropyArgs<T> args, RowLoss* losses) {
  constexpr int kBlock = kThreads == 32 ? kNarrowBlock : kThreads, kCount = Pack<T>::kCount;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kBlock / kThreads) + threadIdx.x / kThreads;
  if (row >= args.rows) return;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t classes = args.classes, target = args.targets[row], first = thread * kCount;
  T* const logits = args.logits + row * args.stride;
  SoftmaxSum own;
  std::int64_t at = first;
  for (; at < classes; at += kThreads * kCount) {
    AddSome<T, kPacked>(LoadSome<T, kPacked>(logits, at, classes), classes - at, own);
  }
  const float largest = RowMax<kThreads>(own.largest);
  const float sum = RowSum<kThreads>(own.sum * ExpOf<T>(own.largest - largest));
  const float factor = args.gradient_scale / sum;
  // Goes through the row from its end to its beginning, because the caches still hold the end.
  for (at -= kThreads * kCount; at >= first; at -= kThreads * kCount) {
    Pack<T> pack = LoadSome<T, kPacked>(logits, at, classes);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float logit = ToFloat(pack.value[j]), slope = ExpOf<T>(logit - largest) * factor;
      pack.value[j] = Rounded<T>(at + j == target ? slope - args.gradient_scale : slope);
      if (at + j == target)
        losses[row] = {static_cast<double>(Log(sum)) + static_cast<double>(largest - logit), logit == largest};
    }
    StoreSome<T, kPacked>(pack, logits, at, classes);
  }
}

__global__ void __launch_bounds__(kSumBlock) AddRows(std::int64_t rows, const RowLoss* losses, LossResult* result) {
  LossResult sum;
  for (std::int64_t row = threadIdx.x; row < rows; row += kSumBlock) {
    sum.loss += losses[row].loss;
    sum.correct += losses[row].correct;
  }
  sum.loss = BlockSum<kSumBlock>(sum.loss);
  sum.correct = BlockSum<kSumBlock>(sum.correct);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

template <class T>
void SoftmaxCrossEntropy(CudaContext& context, const SoftmaxCrossEntropyArgs<T>& args) {
  RowLoss* const losses = context.Workspace<RowLoss>(static_cast<std::size_t>(args.rows));
  const bool packed =
      args.classes % Pack<T>::kCount == 0 && ArePacked(args.stride * static_cast<std::int64_t>(sizeof(T)), args.logits);
  if (args.classes <= kWarpColumns) {
    Launch(context, packed ? LossRows<T, 32, true> : LossRows<T, 32, false>, GridFor(args.rows * 32, kNarrowBlock),
           args, losses);
  } else {
    Launch(context, packed ? LossRows<T, kWideBlock, true> : LossRows<T, kWideBlock, false>,
           GridFor(args.rows * kWideBlock, kWideBlock), args, losses);
  }
  Launch(context, AddRows, {dim3(1), dim3(kSumBlock)}, args.rows, losses, args.result);
}

template void SoftmaxCrossEntropy(CudaContext&, const SoftmaxCrossEntropyArgs<float>&);
template void SoftmaxCrossEntropy(CudaContext&, const SoftmaxCrossEntropyArgs<Bf16>&);
template void SoftmaxCrossEntropy(CudaContext&, const SoftmaxCrossEntropyArgs<Half>&);

}  // namespace capstan::kernels
