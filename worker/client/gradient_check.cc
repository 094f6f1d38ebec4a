#include "worker/client/gradient_check.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/hash.h"

namespace capstan::client {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr std::size_t kLanes = 16;
// A tile of 2 KiB is still in the nearest cache when it is hashed. Tiles of 4 KiB measured slower.
constexpr std::size_t kTileElements = 512;

}  // namespace

bool AllFinite(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (float value : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  return largest < kInfinity;
}

std::optional<std::uint64_t> HashIfFinite(std::span<const float> values) {
  if (values.size() <= kTileElements)
    return AllFinite(values) ? std::optional(Hash64(std::as_bytes(values))) : std::nullopt;
  Hasher hasher;
  for (std::size_t begin = 0; begin < values.size(); begin += kTileElements) {
    const std::span<const float> tile = values.subspan(begin, std::min(kTileElements, values.size() - begin));
    if (!AllFinite(tile)) return std::nullopt;
    hasher.Add(std::as_bytes(tile));
  }
  return hasher.Digest();
}

double SumOfSquares(std::span<const float> values) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < values.size(); ++i, ++lane) {
    lanes[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace capstan::client
