#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementary.h"
#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/philox_batch.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTileRows = 64;  // query rows of one tile; its keys are all up to its last row

// One head of one sequence: where its parts start and how far apart its rows are.
struct Head {
  Head(const AttentionShape& shape, std::int64_t index)
      : qkv_stride(3 * shape.heads * shape.head_width),
        out_stride(shape.heads * shape.head_width),
        qkv(index / shape.heads * shape.length * qkv_stride + index % shape.heads * shape.head_width),
        out(index / shape.heads * shape.length * out_stride + index % shape.heads * shape.head_width),
        row(index * shape.length) {}

  std::int64_t qkv_stride, out_stride;
  std::int64_t qkv, out, row;  // offsets in qkv, out and log_sum
};

// Query rows [first, first + rows), keys [0, keys).
struct Tile {
  Tile(const AttentionShape& shape, std::int64_t index)
      : first(index * kTileRows), rows(std::min(kTileRows, shape.length - first)), keys(first + rows) {}

  std::int64_t first, rows, keys;
};

std::int64_t TileCount(const AttentionShape& shape) { return (shape.length + kTileRows - 1) / kTileRows; }

// Numbers a lane needs for products and for `tiles` score tiles.
template <class Real>
std::int64_t LaneScratch(const AttentionShape& shape, std::int64_t tiles) {
  return kMatmulScratch<Real> + (tiles * kTileRows * shape.length + 15) / 16 * 16;
}

template <class Real>
Real ScoreScale(const AttentionShape& shape) {
  return static_cast<Real>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
}

// scores = scale * q k' for the tile, dense [rows, keys]; q and k point at the head's first row.
template <class Real>
void Scores(const Head& head, const Tile& tile, const AttentionShape& shape, const Real* qkv, Real* scores,
            Real* scratch) {
  const Real* q = qkv + head.qkv;
  const Real* k = q + head.out_stride;
  MatmulOnThisThread(Product<Real>{.m = tile.rows,
                                   .n = tile.keys,
                                   .k = shape.head_width,
                                   .a = {q + tile.first * head.qkv_stride, head.qkv_stride},
                                   .b = {k, head.qkv_stride, Transpose::kYes},
                                   .c = scores,
                                   .c_stride = tile.keys,
                                   .alpha = ScoreScale<Real>(shape)},
                     scratch);
}

template <class Real>
void DropRow(const AttentionShape& shape, const DropoutMask& dropout, std::int64_t row, std::int64_t count, Real* x) {
  if (dropout.probability == 0) return;
  const std::int64_t stride = (shape.length + kPhiloxGroup - 1) / kPhiloxGroup * kPhiloxGroup;
  DropoutOnThisThread(dropout, static_cast<std::uint64_t>(row * stride), count, x);
}

template <class Real>
void ForwardTile(const AttentionArgs<Real>& args, const Head& head, const Tile& tile, Real* scratch) {
  Real* scores = scratch + kMatmulScratch<Real>;
  Scores(head, tile, args.shape, args.qkv, scores, scratch);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::int64_t seen = tile.first + r + 1, row = head.row + tile.first + r;
    Real* p = scores + r * tile.keys;
    const Real largest = Max(p, seen);
    for (std::int64_t j = 0; j < seen; ++j) p[j] = Exp(p[j] - largest);
    const Real sum = Sum(p, seen);
    const Real inverse = Real(1) / sum;
    for (std::int64_t j = 0; j < seen; ++j) p[j] *= inverse;
    std::fill(p + seen, p + tile.keys, Real(0));
    args.log_sum[row] = largest + Log(sum);
    DropRow(args.shape, args.dropout, row, seen, p);
  }
  const Real* v = args.qkv + head.qkv + 2 * head.out_stride;
  MatmulOnThisThread(Product<Real>{.m = tile.rows,
                                   .n = args.shape.head_width,
                                   .k = tile.keys,
                                   .a = {scores, tile.keys},
                                   .b = {v, head.qkv_stride},
                                   .c = args.out + head.out + tile.first * head.out_stride,
                                   .c_stride = head.out_stride},
                     scratch);
}

// From scores and dp (the gradient of the dropped probabilities) to dropped probabilities and the scores' gradient,
// both in place.
template <class Real>
void SoftmaxBackward(const AttentionGradient<Real>& args, const Head& head, const Tile& tile, Real* p, Real* dp) {
  const Real scale = ScoreScale<Real>(args.shape);
  for (std::int64_t r = 0; r < tile.rows; ++r, p += tile.keys, dp += tile.keys) {
    const std::int64_t seen = tile.first + r + 1, row = head.row + tile.first + r;
    const std::int64_t out_row = head.out + (tile.first + r) * head.out_stride;
    const Real log_sum = args.log_sum[row];
    // The sum over j of p dp, by way of the output.
    const Real mean = Dot(args.out + out_row, args.dout + out_row, args.shape.head_width);
    DropRow(args.shape, args.dropout, row, seen, dp);
    for (std::int64_t j = 0; j < seen; ++j) {
      p[j] = Exp(p[j] - log_sum);
      dp[j] = p[j] * (dp[j] - mean) * scale;
    }
    std::fill(p + seen, p + tile.keys, Real(0));
    std::fill(dp + seen, dp + tile.keys, Real(0));
    DropRow(args.shape, args.dropout, row, seen, p);
  }
}

template <class Real>
void BackwardTile(const AttentionGradient<Real>& args, const Head& head, const Tile& tile, Real* scratch) {
  const AttentionShape& shape = args.shape;
  const std::int64_t width = shape.head_width, stride = head.qkv_stride;
  const Real* q = args.qkv + head.qkv;
  const Real* k = q + head.out_stride;
  const Real* v = k + head.out_stride;
  Real* dq = args.dqkv + head.qkv;
  Real* dk = dq + head.out_stride;
  Real* dv = dk + head.out_stride;
  const Operand<Real> dout{args.dout + head.out + tile.first * head.out_stride, head.out_stride};
  const Real add = tile.keys < shape.length ? Real(1) : Real(0);  // the last tile comes first and sees all keys

  Real* p = scratch + kMatmulScratch<Real>;
  Real* dp = p + tile.rows * tile.keys;
  Scores(head, tile, shape, args.qkv, p, scratch);
  const auto product = [scratch](const Product<Real>& arguments) { MatmulOnThisThread(arguments, scratch); };
  product({.m = tile.rows,
           .n = tile.keys,
           .k = width,
           .a = dout,
           .b = {v, stride, Transpose::kYes},
           .c = dp,
           .c_stride = tile.keys});
  SoftmaxBackward(args, head, tile, p, dp);
  product({.m = tile.keys,
           .n = width,
           .k = tile.rows,
           .a = {p, tile.keys, Transpose::kYes},
           .b = dout,
           .c = dv,
           .c_stride = stride,
           .beta = add});
  product({.m = tile.rows,
           .n = width,
           .k = tile.keys,
           .a = {dp, tile.keys},
           .b = {k, stride},
           .c = dq + tile.first * stride,
           .c_stride = stride});
  product({.m = tile.keys,
           .n = width,
           .k = tile.rows,
           .a = {dp, tile.keys, Transpose::kYes},
           .b = {q + tile.first * stride, stride},
           .c = dk,
           .c_stride = stride,
           .beta = add});
}

}  // namespace

template <class Real>
void CausalAttention(CpuContext& context, const AttentionArgs<Real>& args) {
  const std::int64_t tiles = TileCount(args.shape), lane_scratch = LaneScratch<Real>(args.shape, 1);
  Real* scratch = context.Workspace<Real>(static_cast<std::size_t>(lane_scratch * context.threads()));
  context.ParallelFor(args.shape.sequences * args.shape.heads * tiles, [&](std::int64_t task, int lane) {
    // The longest tiles first, so that the threads end together.
    ForwardTile(args, Head(args.shape, task / tiles), Tile(args.shape, tiles - 1 - task % tiles),
                scratch + lane * lane_scratch);
  });
}

template <class Real>
void CausalAttentionBackward(CpuContext& context, const AttentionGradient<Real>& args) {
  const std::int64_t lane_scratch = LaneScratch<Real>(args.shape, 2);
  Real* scratch = context.Workspace<Real>(static_cast<std::size_t>(lane_scratch * context.threads()));
  context.ParallelFor(args.shape.sequences * args.shape.heads, [&](std::int64_t index, int lane) {
    const Head head(args.shape, index);
    for (std::int64_t tile = TileCount(args.shape) - 1; tile >= 0; --tile) {
      BackwardTile(args, head, Tile(args.shape, tile), scratch + lane * lane_scratch);
    }
  });
}

template void CausalAttention(CpuContext&, const AttentionArgs<float>&);
template void CausalAttention(CpuContext&, const AttentionArgs<double>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<float>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<double>&);

}  // namespace capstan::kernels
