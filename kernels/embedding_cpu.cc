#include <algorithm>

#include "kernels/embedding.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTaskColumns = 64;
constexpr std::int64_t kTaskRows = 64;

// Columns [first, first + count) of both gradients.
template <class Real>
void BackwardColumns(const EmbeddingGradient<Real>& args, std::int64_t first, std::int64_t count) {
  const std::int64_t width = args.width;
  for (std::int64_t s = 0; s < args.sequences; ++s) {
    for (std::int64_t t = 0; t < args.length; ++t) {
      const std::int64_t row = s * args.length + t;
      const Real* dy = args.dy + row * width + first;
      Real* token = args.token_gradient + args.tokens[row] * width + first;
      Real* position = args.position_gradient + t * width + first;
      for (std::int64_t j = 0; j < count; ++j) token[j] += dy[j];
      if (s > 0) {
        for (std::int64_t j = 0; j < count; ++j) position[j] += dy[j];
      } else if (args.position_beta == Real(0)) {
        for (std::int64_t j = 0; j < count; ++j) position[j] = dy[j];
      } else {
        for (std::int64_t j = 0; j < count; ++j) position[j] = args.position_beta * position[j] + dy[j];
      }
    }
  }
}

}  // namespace

template <class Real>
void Embedding(CpuContext& context, const EmbeddingArgs<Real>& args) {
  const std::int64_t rows = args.sequences * args.length, width = args.width;
  context.ParallelFor((rows + kTaskRows - 1) / kTaskRows, [&](std::int64_t task, int) {
    for (std::int64_t row = task * kTaskRows; row < std::min(rows, (task + 1) * kTaskRows); ++row) {
      const Real* token = args.token_table + args.tokens[row] * width;
      const Real* position = args.position_table + row % args.length * width;
      Real* y = args.y + row * width;
      for (std::int64_t j = 0; j < width; ++j) y[j] = token[j] + position[j];
    }
  });
}

template <class Real>
void EmbeddingBackward(CpuContext& context, const EmbeddingGradient<Real>& args) {
  context.ParallelFor((args.width + kTaskColumns - 1) / kTaskColumns, [&](std::int64_t task, int) {
    const std::int64_t first = task * kTaskColumns;
    BackwardColumns(args, first, std::min(kTaskColumns, args.width - first));
  });
}

template void Embedding(CpuContext&, const EmbeddingArgs<float>&);
template void Embedding(CpuContext&, const EmbeddingArgs<double>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<float>&);
template void EmbeddingBackward(CpuContext&, const EmbeddingGradient<double>&);

}  // namespace capstan::kernels
