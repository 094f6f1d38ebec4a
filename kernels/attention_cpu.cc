#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/base/elementary.h"
#include "kernels/lanes.h"
#include "kernels/matmul.h"
#include "kernels/philox_batch.h"
#include "kernels/wide_rows.h"

namespace capstan::kernels {
namespace {

constexpr std::int64_t kTileRows = 64;  // query rows of one tile; its keys are all keys up to its last row

// One head of one sequence: the offsets of its parts in the arrays, and the distance between its rows.
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

// A tile of scores: query rows [first, first + rows), and keys [0, keys), which are all that these rows see.
struct Tile {
  Tile(const AttentionShape& shape, std::int64_t index)
      : first(index * kTileRows), rows(std::min(kTileRows, shape.length - first)), keys(first + rows) {}

  std::int64_t first, rows, keys;
};

std::int64_t TileCount(const AttentionShape& shape) { return (shape.length + kTileRows - 1) / kTileRows; }

// The scratch memory of one thread of the context: for products, for `tiles` tiles of scores, and for rows.
template <class T>
struct LaneScratch {
  // `memory` has Size(shape, tiles) elements.
  LaneScratch(const AttentionShape& shape, std::int64_t tiles, Wide<T>* memory)
      : product(memory),
        scores(product + kMatmulScratch<T>),
        rounded(reinterpret_cast<T*>(scores + tiles * TileSize(shape))),
        rows(scores + tiles * TileSize(shape) + WideScratch<T>(TileSize(shape))),
        key_gradients(rows + WideScratch<T>(2 * shape.head_width)) {}

  static std::int64_t Size(const AttentionShape& shape, std::int64_t tiles) {
    const std::int64_t rows = 2 * shape.head_width + 2 * shape.length * shape.head_width;
    return kMatmulScratch<T> + tiles * TileSize(shape) + WideScratch<T>(TileSize(shape) + (rows + 15) / 16 * 16);
  }
  static std::int64_t TileSize(const AttentionShape& shape) { return (kTileRows * shape.length + 15) / 16 * 16; }

  Wide<T>* product;
  Wide<T>* scores;         // score tiles
  T* rounded;              // one score tile as T
  Wide<T>* rows;           // two rows of a head
  Wide<T>* key_gradients;  // for k and v, while they are added
};

template <class Real>
Real ScoreScale(const AttentionShape& shape) {
  return static_cast<Real>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
}

// Computes scores = scale * q k' for the tile, dense [rows, keys].
template <class T>
void Scores(const Head& head, const Tile& tile, const AttentionShape& shape, const T* qkv, Wide<T>* scores,
            Wide<T>* scratch) {
  const T* q = qkv + head.qkv;
  const T* k = q + head.out_stride;
  MatmulOnThisThread(Product<T, Wide<T>>{.m = tile.rows,
                                         .n = tile.keys,
                                         .k = shape.head_width,
                                         .a = {q + tile.first * head.qkv_stride, head.qkv_stride},
                                         .b = {k, head.qkv_stride, Transpose::kYes},
                                         .c = scores,
                                         .c_stride = tile.keys,
                                         .alpha = ScoreScale<Wide<T>>(shape)},
                     scratch);
}

template <class Real>
void DropRow(const AttentionShape& shape, const DropoutMask& dropout, std::int64_t row, std::int64_t count, Real* x) {
  if (dropout.probability == 0) return;
  const std::int64_t stride = (shape.length + kPhiloxGroup - 1) / kPhiloxGroup * kPhiloxGroup;
  DropoutOnThisThread(dropout, static_cast<std::uint64_t>(row * stride), count, x);
}

template <class T>
void ForwardTile(const AttentionArgs<T>& args, const Head& head, const Tile& tile, const LaneScratch<T>& scratch) {
  using Real = Wide<T>;
  Real* scores = scratch.scores;
  Scores(head, tile, args.shape, args.qkv, scores, scratch.product);
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
  const T* v = args.qkv + head.qkv + 2 * head.out_stride;
  MatmulOnThisThread(Product<T>{.m = tile.rows,
                                .n = args.shape.head_width,
                                .k = tile.keys,
                                .a = {RoundedRow(scores, tile.rows * tile.keys, scratch.rounded), tile.keys},
                                .b = {v, head.qkv_stride},
                                .c = args.out + head.out + tile.first * head.out_stride,
                                .c_stride = head.out_stride},
                     scratch.product);
}

// Turns scores `p` into probabilities after dropout, and `dp`, the gradient of these probabilities, into the gradient
// of the scores. Both change in place. `rows` is LaneScratch::rows.
template <class T>
void SoftmaxBackward(const AttentionGradient<T>& args, const Head& head, const Tile& tile, Wide<T>* rows, Wide<T>* p,
                     Wide<T>* dp) {
  using Real = Wide<T>;
  const std::int64_t width = args.shape.head_width;
  const Real scale = ScoreScale<Real>(args.shape);
  for (std::int64_t r = 0; r < tile.rows; ++r, p += tile.keys, dp += tile.keys) {
    const std::int64_t seen = tile.first + r + 1, row = head.row + tile.first + r;
    const std::int64_t out_row = head.out + (tile.first + r) * head.out_stride;
    const Real log_sum = args.log_sum[row];
    // The sum over j of p[j] * dp[j] equals the dot product of the row of out with the row of dout.
    const Real mean =
        Dot(WideRow(args.out + out_row, width, rows), WideRow(args.dout + out_row, width, rows + width), width);
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

// Where the gradients of a head's k and v are added up: in dqkv itself, or in scratch memory if T has 16 bits.
template <class T>
struct KeyGradients {
  KeyGradients(const AttentionGradient<T>& args, const Head& head, const LaneScratch<T>& scratch) {
    if constexpr (kIs16Bit<T>) {
      stride = args.shape.head_width;
      dk = scratch.key_gradients;
      dv = dk + args.shape.length * stride;
    } else {
      stride = head.qkv_stride;
      dk = args.dqkv + head.qkv + head.out_stride;
      dv = dk + head.out_stride;
    }
  }

  // Rounds the sums into dqkv, if they are in scratch memory. Call it after the last addition.
  void Finish(const AttentionGradient<T>& args, const Head& head) const {
    for (std::int64_t row = 0; kIs16Bit<T> && row < args.shape.length; ++row) {
      T* out = args.dqkv + head.qkv + head.out_stride + row * head.qkv_stride;
      Round(dk + row * stride, args.shape.head_width, out);
      Round(dv + row * stride, args.shape.head_width, out + head.out_stride);
    }
  }

  Wide<T>* dk;
  Wide<T>* dv;
  std::int64_t stride;
};

template <class T>
void BackwardTile(const AttentionGradient<T>& args, const Head& head, const Tile& tile, const KeyGradients<T>& keys,
                  const LaneScratch<T>& scratch) {
  const AttentionShape& shape = args.shape;
  const std::int64_t width = shape.head_width, stride = head.qkv_stride, size = tile.rows * tile.keys;
  const T* q = args.qkv + head.qkv;
  const T* k = q + head.out_stride;
  const T* v = k + head.out_stride;
  const Operand<T> dout{args.dout + head.out + tile.first * head.out_stride, head.out_stride};
  // The last tile comes first and sees all keys, so it writes the gradients of k and v. The other tiles add to them.
  const Wide<T> add = tile.keys < shape.length ? Wide<T>(1) : Wide<T>(0);

  Wide<T>* p = scratch.scores;
  Wide<T>* dp = p + size;
  Scores(head, tile, shape, args.qkv, p, scratch.product);
  const auto wide_product = [&](const Product<T, Wide<T>>& arguments) {
    MatmulOnThisThread(arguments, scratch.product);
  };
  wide_product({.m = tile.rows,
                .n = tile.keys,
                .k = width,
                .a = dout,
                .b = {v, stride, Transpose::kYes},
                .c = dp,
                .c_stride = tile.keys});
  SoftmaxBackward(args, head, tile, scratch.rows, p, dp);
  wide_product({.m = tile.keys,
                .n = width,
                .k = tile.rows,
                .a = {RoundedRow(p, size, scratch.rounded), tile.keys, Transpose::kYes},
                .b = dout,
                .c = keys.dv,
                .c_stride = keys.stride,
                .beta = add});
  const T* slopes = RoundedRow(dp, size, scratch.rounded);
  MatmulOnThisThread(Product<T>{.m = tile.rows,
                                .n = width,
                                .k = tile.keys,
                                .a = {slopes, tile.keys},
                                .b = {k, stride},
                                .c = args.dqkv + head.qkv + tile.first * stride,
                                .c_stride = stride},
                     scratch.product);
  wide_product({.m = tile.keys,
                .n = width,
                .k = tile.rows,
                .a = {slopes, tile.keys, Transpose::kYes},
                .b = {q + tile.first * stride, stride},
                .c = keys.dk,
                .c_stride = keys.stride,
                .beta = add});
}

}  // namespace

template <class T>
void CausalAttention(CpuContext& context, const AttentionArgs<T>& args) {
  const std::int64_t tiles = TileCount(args.shape), lane_size = LaneScratch<T>::Size(args.shape, 1);
  Wide<T>* memory = context.Workspace<Wide<T>>(static_cast<std::size_t>(lane_size * context.threads()));
  context.ParallelFor(args.shape.sequences * args.shape.heads * tiles, [&](std::int64_t task, int lane) {
    // The longest tiles first, so that all threads end at about the same time.
    ForwardTile(args, Head(args.shape, task / tiles), Tile(args.shape, tiles - 1 - task % tiles),
                LaneScratch<T>(args.shape, 1, memory + lane * lane_size));
  });
}

template <class T>
void CausalAttentionBackward(CpuContext& context, const AttentionGradient<T>& args) {
  const std::int64_t lane_size = LaneScratch<T>::Size(args.shape, 2);
  Wide<T>* memory = context.Workspace<Wide<T>>(static_cast<std::size_t>(lane_size * context.threads()));
  context.ParallelFor(args.shape.sequences * args.shape.heads, [&](std::int64_t index, int lane) {
    const Head head(args.shape, index);
    const LaneScratch<T> scratch(args.shape, 2, memory + lane * lane_size);
    const KeyGradients<T> keys(args, head, scratch);
    for (std::int64_t tile = TileCount(args.shape) - 1; tile >= 0; --tile) {
      BackwardTile(args, head, Tile(args.shape, tile), keys, scratch);
    }
    keys.Finish(args, head);
  });
}

template void CausalAttention(CpuContext&, const AttentionArgs<float>&);
template void CausalAttention(CpuContext&, const AttentionArgs<double>&);
template void CausalAttention(CpuContext&, const AttentionArgs<Bf16>&);
template void CausalAttention(CpuContext&, const AttentionArgs<Half>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<float>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<double>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<Bf16>&);
template void CausalAttentionBackward(CpuContext&, const AttentionGradient<Half>&);

}  // namespace capstan::kernels
