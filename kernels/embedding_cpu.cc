#include <algorithm>

#include "kernels/embedding.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskColumns = 64;
constexpr std::int64_t kTaskRows = 64;

// Computes columns [first, first + count) of both gradients.
template <class T>
void BackwardColumns(const EmbeddingGradient<T>& args, std::int64_t first, std::int64_t count) {
  const std::int64_t width = args.width;
  Wide<T> scratch[WideScratch<T>(kTaskColumns) + 1];
  for (std::int64_t s = 0; s < args.sequences; ++s) {
    for (std::int64_t t = 0; t < args.length; ++t) {
      const std::int64_t row = s * args.length + t;
      const Wide<T>* dy = WideRow(args.dy + row * width + first, count, scratch);
      Wide<T>* token = args.token_gradient + args.tokens[row] * width + first;
      Wide<T>* position = args.position_gradient + t * width + first;
      for (std::int64_t j = 0; j < count; ++j) token[j] += dy[j];
      if (s > 0) {
        for (std::int64_t j = 0; j < count; ++j) position[j] += dy[j];
      } else if (args.position_beta == Wide<T>(0)) {
        for (std::int64_t j = 0; j < count; ++j) position[j] = dy[j];
      } else {
        for (std::int64_t j = 0; j < count; ++j) position[j] = args.position_beta * position[j] + dy[j];
      }
    }
  }
}

}  // namespace

template <class T>
void Embedding(CpuContext& context, const EmbeddingArgs<T>& args) {
  const std::int64_t rows = args.sequences * args.length, width = args.width;
  const std::int64_t lane_scratch = WideScratch<T>(2 * width);
  Wide<T>* all_scratch = context.Workspace<Wide<T>>(static_cast<std::size_t>(lane_scratch * context.threads()));
  context.ParallelFor((rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t task, int lane) {
    Wide<T>* scratch = all_scratch + lane * lane_scratch;
    for (std::int64_t row = task * kTaskRows; row < std::min(rows, (task + 1) * kTaskRows); ++row) {
      const Wide<T>* token = WideRow(args.token_table + args.tokens[row] * width, width, scratch);
      const Wide<T>* position =
          WideRow(args.position_table + row % args.length * width, width, scratch + WideScratch<T>(width));
      Wide<T>* y = WideResult(args.y + row * width, scratch);
      for (std::int64_t j = 0; j < width; ++j) y[j] = token[j] + position[j];
      Round(y, width, args.y + row * width);
    }
  });
}

template <class T>
void EmbeddingBackward(CpuContext& context, const EmbeddingGradient<T>& args) {
  context.ParallelFor((args.width + kTaskColumns - 1) / kTaskColumns, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTaskColumns;
    BackwardColumns(args, first, std::min(kTaskColumns, args.width - first));
  });
}

template void Embedding(CpuContext&, const EmbeddingArgs<float>&);
template void Embedding(CpuContext&, const EmbeddingArgs<double>&);
template void Embedding(CpuContext&, const EmbeddingArgs<Bf16>&);
template void Embedding(CpuContext&, const EmbeddingArgs<Half>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<float>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<double>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<Bf16>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<Half>&);

}  // namespace capstan::kernels
