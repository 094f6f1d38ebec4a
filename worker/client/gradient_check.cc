#include "worker/client/gradient_check.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace capstan::client {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr std::size_t kLanes = 16;

}  // namespace

bool AllFinite(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (float value : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  return largest < kInfinity;
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
