#include "update/median.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/status.h"
#include "common/data/encoding.h"

namespace capstan {

namespace {

constexpr std::size_t kFloats = 16384;  // room for the values of all slots; 4 for each of the most slots of a job

// Puts the smaller of each pair into `low` and the larger one into `high`. A pair with a NaN stays as it is.
void SortPairs(float* __restrict low, float* __restrict high, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float a = low[i], b = high[i];
    low[i] = b < a ? b : a;
    high[i] = b < a ? a : b;
  }
}

// Sorts the columns of `rows` rows by Batcher's merge exchange: D. Knuth, The Art of Computer Programming, volume 3,
// 5.2.2, algorithm M. Which pairs are compared depends on the number of rows only.
void SortColumns(float* values, std::size_t rows, std::size_t width) {
  const std::size_t top = std::bit_ceil(rows) / 2;
  for (std::size_t p = top; p > 0; p /= 2) {
    std::size_t q = top, r = 0, distance = p;
    for (;;) {
      for (std::size_t i = 0; i + distance < rows; ++i) {
        if ((i & p) == r) SortPairs(values + i * width, values + (i + distance) * width, width);
      }
      if (q == p) break;
      distance = q - p;
      q /= 2;
      r = p;
    }
  }
}

// Writes the median of each column to `out`, or a NaN if one of the column's values is not a number. Sorts `values`.
void Medians(float* values, std::size_t rows, std::size_t width, float* out) {
  std::copy_n(values, width, out);
  for (std::size_t row = 1; row < rows; ++row) {
    const float* __restrict from = values + row * width;
    for (std::size_t i = 0; i < width; ++i) out[i] = from[i] != from[i] ? from[i] : out[i];
  }
  SortColumns(values, rows, width);
  const float* low = values + (rows - 1) / 2 * width;
  const float* high = values + rows / 2 * width;
  const bool is_odd = low == high;
  for (std::size_t i = 0; i < width; ++i) {
    const float median = is_odd ? low[i] : (low[i] + high[i]) * 0.5F;
    out[i] = out[i] != out[i] ? out[i] : median;
  }
}

}  // namespace

void MedianTile(std::span<const StagedInput> leaves, std::size_t begin, std::size_t count, float* out) {
  const auto rows = static_cast<std::size_t>(
      std::count_if(leaves.begin(), leaves.end(), [](const StagedInput& leaf) { return leaf.samples > 0; }));
  CAPSTAN_CHECK(rows > 0 && rows <= kFloats);
  float values[kFloats];
  const std::size_t width = kFloats / rows;
  for (std::size_t done = 0; done < count; done += width) {
    const std::size_t some = std::min(width, count - done);
    float* row = values;
    for (const StagedInput& leaf : leaves) {
      if (leaf.samples == 0) continue;
      Decode(leaf.encoding, leaf.values + (begin + done) * BytesPerNumber(leaf.encoding), some, row);
      row += some;
    }
    Medians(values, rows, some, out + done);
  }
}

}  // namespace capstan
