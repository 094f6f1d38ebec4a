// Shared by both passes of attention on a device: where a head lies in the arrays, and which probabilities are dropped.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/base/random.h"
#include "common/base/status.h"
#include "kernels/attention.h"

namespace capstan::kernels {

inline constexpr float kLog2OfE = 1.44269504088896340736F;
inline constexpr float kLn2 = 0.693147180559945309417F;

// Tells which probabilities are dropped: the same elements that Dropout would drop of a [rows, stride] array.
struct DroppedElements {
  DroppedElements(const DropoutMask& mask, std::int64_t length)
      : key(mask.key),
        stride((length + 63) / 64 * 64),
        threshold(static_cast<std::uint32_t>(mask.probability * 0x1p32)),
        scale(static_cast<float>(1.0 / (1.0 - mask.probability))) {
    CAPSTAN_CHECK(mask.probability >= 0 && mask.probability < 1);
  }

  // Returns one bit for each of the columns [column, column + 4) of a row: 1 if the element is dropped. `column` is a
  // multiple of 4.
  __device__ __forceinline__ unsigned OfFour(std::int64_t row, std::int64_t column) const {
    const Random4 bits = Philox(key, static_cast<std::uint64_t>(row * stride + column) / 4, 0);
    return (bits[0] < threshold ? 1U : 0U) | (bits[1] < threshold ? 2U : 0U) | (bits[2] < threshold ? 4U : 0U) |
           (bits[3] < threshold ? 8U : 0U);
  }

  std::uint64_t key;
  std::int64_t stride;
  std::uint32_t threshold;  // 0: no dropout
  float scale;              // of kept elements
};

// One head of one sequence: the offsets of its parts in the arrays, and the distance between its rows.
struct DeviceHead {
  __device__ __forceinline__ DeviceHead(const AttentionShape& shape, std::int64_t index)
      : qkv_stride(3 * shape.heads * shape.head_width),
        out_stride(shape.heads * shape.head_width),
        qkv(index / shape.heads * shape.length * qkv_stride + index % shape.heads * shape.head_width),
        out(index / shape.heads * shape.length * out_stride + index % shape.heads * shape.head_width),
        row(index * shape.length) {}

  std::int64_t qkv_stride, out_stride;
  std::int64_t qkv, out, row;  // offsets in qkv, out and log_sum
};

inline float ScoreScaleOf(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
}

// Returns the number of blocks if each block has `rows` rows of one head of one sequence.
inline std::int64_t TilesOf(const AttentionShape& shape, std::int64_t rows) {
  return shape.sequences * shape.heads * ((shape.length + rows - 1) / rows);
}

}  // namespace capstan::kernels
