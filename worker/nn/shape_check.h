// Checks of a model's sizes before anything is built from them.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace capstan::nn {

inline constexpr std::int64_t kSizeMax = std::int64_t{1} << 24;  // of one extent
inline constexpr std::int64_t kLayersMax = 4096;

inline Status CheckSize(const std::string& name, std::int64_t value, std::int64_t maximum = kSizeMax) {
  if (value >= 1 && value <= maximum) return {};
  return Invalid("model." + name + " is " + std::to_string(value) + "; it must be from 1 to " +
                 std::to_string(maximum));
}

inline Status CheckDropout(double probability) {
  if (probability >= 0 && probability < 1) return {};
  return Invalid("model.dropout is " + std::to_string(probability) + "; it must be at least 0 and below 1");
}

}  // namespace capstan::nn
