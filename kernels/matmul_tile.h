// TileProduct: one thread's matrix product, as a template on the machine's vectors. Only files that are compiled for
// one instruction set include this header. matmul.h says what the bits depend on.
//
// Kind:   everything here is in an unnamed namespace, so that the linker never uses code for one instruction set in
//         place of another's.
// Why:    this is the scheme of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008): a
//         block of A stays in the second-level cache, a strip of B in the first, a tile of C in registers.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"
#include "kernels/matmul_x86.h"

namespace capstan::kernels {
namespace {

inline constexpr std::int64_t kBlockRowsMax = 696;  // rows of A packed at once; a multiple of every kRows of fp32

template <class S>
inline constexpr int kStripWidth = S::kVectors* S::kWidth;

// Where a tile's sums are written.
template <class Real>
struct TileTarget {
  Real* c;
  std::int64_t stride;
  Real alpha, beta;
  const Real* bias;  // null: no bias, or not yet
};

// Returns how many packed numbers hold `depths` values of k (a packed number may hold a pair).
template <class Reader>
constexpr std::int64_t PackedDepths(std::int64_t depths) {
  return (depths + Reader::kStep - 1) / Reader::kStep;
}

// Packs numbers that are stored as [depths][...] with `stride`: out[k * kWidth + r] = packed number k of column r, for
// r < count.
template <class Reader, int kWidth>
void PackRows(const typename Reader::Source* in, std::int64_t stride, std::int64_t count, std::int64_t depths,
              typename Reader::Packed* out) {
  for (std::int64_t k = 0; k < depths; k += Reader::kStep, in += Reader::kStep * stride, out += kWidth) {
    if (count == kWidth) {
      Reader::template Row<kWidth>(in, stride, depths - k, out);
    } else {
      for (std::int64_t r = 0; r < count; ++r) out[r] = Reader::One(in + r, stride, depths - k);
    }
  }
}

// Packs A's rows [row, row + rows) and depths [depth, depth + depths) as panels of S::kRows rows; a panel is
// [depth][row].
template <class S, class Reader>
void PackA(const Operand<typename Reader::Source>& a, std::int64_t row, std::int64_t rows, std::int64_t depth,
           std::int64_t depths, typename Reader::Packed* out) {
  for (std::int64_t first = 0; first < rows; first += S::kRows, out += S::kRows * PackedDepths<Reader>(depths)) {
    const std::int64_t count = rows - first < S::kRows ? rows - first : S::kRows;
    if (a.transpose == Transpose::kNo) {
      Interleave<Reader>(a.data + (row + first) * a.stride + depth, a.stride, count, depths, out, S::kRows);
    } else {
      PackRows<Reader, S::kRows>(a.data + depth * a.stride + row + first, a.stride, count, depths, out);
    }
  }
}

// Packs B's columns [column, column + columns) and depths [depth, depth + depths) as one strip [depth][kStripWidth].
// Missing columns become zeros.
template <class S, class Reader>
void PackB(const Operand<typename Reader::Source>& b, std::int64_t column, std::int64_t columns, std::int64_t depth,
           std::int64_t depths, typename Reader::Packed* out) {
  constexpr int kWidth = kStripWidth<S>;
  if (columns < kWidth) {
    for (std::int64_t i = 0; i < PackedDepths<Reader>(depths) * kWidth; ++i) out[i] = 0;
  }
  if (b.transpose == Transpose::kNo) {
    PackRows<Reader, kWidth>(b.data + depth * b.stride + column, b.stride, columns, depths, out);
  } else {
    Interleave<Reader>(b.data + column * b.stride + depth, b.stride, columns, depths, out, kWidth);
  }
}

// Computes a tile of kRows x kStripWidth numbers: c = alpha * (sums over `depths`) + beta * c + bias.
template <class S, int kRows, class Real>
void Tile(std::int64_t depths, const Real* a, const Real* b, const TileTarget<Real>& target) {
  using Vec = typename S::Vec;
  Vec sums[kRows][S::kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < S::kVectors; ++v) sums[r][v] = S::Zero();
  }
  for (std::int64_t k = 0; k < depths; ++k) {
    Vec right[S::kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < S::kVectors; ++v) right[v] = S::Load(b + v * S::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec left = S::Broadcast(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < S::kVectors; ++v) sums[r][v] = S::Fma(left, right[v], sums[r][v]);
    }
    a += S::kRows;
    b += kStripWidth<S>;
  }
  const Vec alpha = S::Broadcast(target.alpha);
  const Vec beta = S::Broadcast(target.beta);
#pragma GCC unroll 4
  for (int v = 0; v < S::kVectors; ++v) {
    const Vec bias = target.bias != nullptr ? S::Load(target.bias + v * S::kWidth) : S::Zero();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      Real* c = target.c + r * target.stride + v * S::kWidth;
      Vec value = S::Mul(alpha, sums[r][v]);
      if (target.beta != Real(0)) value = S::Add(S::Mul(beta, S::Load(c)), value);
      if (target.bias != nullptr) value = S::Add(value, bias);
      S::Store(c, value);
    }
  }
}

// Calls Tile with `rows` (1 to kRows) as its template argument.
template <class S, int kRows, class Real>
void TileOf(int rows, std::int64_t depths, const Real* a, const Real* b, const TileTarget<Real>& target) {
  if (rows == kRows) {
    Tile<S, kRows>(depths, a, b, target);
  } else if constexpr (kRows > 1) {
    TileOf<S, kRows - 1>(rows, depths, a, b, target);
  }
}

// As TileOf, for a tile at the right edge of C. The tile is computed in a copy of full width, so that nothing beyond
// C's columns is touched. The bias already has full width.
template <class S, class Real>
void EdgeTile(int rows, int columns, std::int64_t depths, const Real* a, const Real* b,
              const TileTarget<Real>& target) {
  constexpr int kWidth = kStripWidth<S>;
  alignas(64) Real copy[S::kRows * kWidth];
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < kWidth; ++j) {
      copy[r * kWidth + j] = target.beta != Real(0) && j < columns ? target.c[r * target.stride + j] : Real(0);
    }
  }
  TileTarget<Real> inner{copy, kWidth, target.alpha, target.beta, target.bias};
  TileOf<S, S::kRows>(rows, depths, a, b, inner);
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < columns; ++j) target.c[r * target.stride + j] = copy[r * kWidth + j];
  }
}

// Computes `product` except its activation.
template <class S, class Reader, class Real>
void TileProduct(const Product<typename Reader::Source, Real>& product, Real* scratch) {
  constexpr int kWidth = kStripWidth<S>;
  constexpr std::int64_t kDepth = kMatmulDepth * Reader::kStep;
  const auto address = reinterpret_cast<std::uintptr_t>(scratch);
  Real* strip = scratch + ((64 - address % 64) % 64) / sizeof(Real);  // vectors of B never straddle cache lines
  Real* block = strip + kWidth * kMatmulDepth;
  // A is cut into blocks of equal size, so that no block is too short to pay for packing B.
  const std::int64_t blocks = (product.m + kBlockRowsMax - 1) / kBlockRowsMax;
  const std::int64_t block_rows = ((product.m + blocks - 1) / blocks + S::kRows - 1) / S::kRows * S::kRows;
  for (std::int64_t row = 0; row < product.m; row += block_rows) {
    const std::int64_t rows = product.m - row < block_rows ? product.m - row : block_rows;
    for (std::int64_t depth = 0; depth == 0 || depth < product.k; depth += kDepth) {
      const std::int64_t rest = product.k - depth;
      const std::int64_t depths = rest < kDepth ? rest : kDepth, packed = PackedDepths<Reader>(depths);
      const bool biased = rest <= kDepth && product.bias != nullptr;
      PackA<S, Reader>(product.a, row, rows, depth, depths, block);
      for (std::int64_t column = 0; column < product.n; column += kWidth) {
        const int columns = static_cast<int>(product.n - column < kWidth ? product.n - column : kWidth);
        PackB<S, Reader>(product.b, column, columns, depth, depths, strip);
        alignas(64) Real bias[kWidth] = {};
        for (int j = 0; biased && j < columns; ++j) bias[j] = WidenOne(product.bias[column + j]);
        for (std::int64_t r = 0; r < rows; r += S::kRows) {
          const int count = static_cast<int>(rows - r < S::kRows ? rows - r : S::kRows);
          const TileTarget<Real> target{product.c + (row + r) * product.c_stride + column, product.c_stride,
                                        product.alpha, depth == 0 ? product.beta : Real(1), biased ? bias : nullptr};
          const Real* panel = block + r * packed;
          if (columns == kWidth) {
            TileOf<S, S::kRows>(count, packed, panel, strip, target);
          } else {
            EdgeTile<S>(count, columns, packed, panel, strip, target);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace capstan::kernels
