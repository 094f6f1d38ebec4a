// Checks of a model's sizes before anything is built from them.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "worker/nn/model.h"

namespace capstan::nn {

inline constexpr std::int64_t kSizeMax = std::int64_t{1} << 24;  // largest extent
inline constexpr std::int64_t kLayersMax = 4096;
inline constexpr std::int64_t kChannelsMax = 1 << 16;
inline constexpr std::int64_t kPixelsMax = std::int64_t{1} << 24;

inline Status CheckSize(const std::string& name, std::int64_t value, std::int64_t maximum = kSizeMax) {
  if (value >= 1 && value <= maximum) return {};
  return Invalid("model." + name + " is " + std::to_string(value) + "; it must be from 1 to " +
                 std::to_string(maximum));
}

inline Status CheckImage(const ImageSize& image) {
  const auto fits = [](std::int64_t extent) { return extent >= 1 && extent <= kPixelsMax; };
  if (fits(image.height) && fits(image.width) && image.height * image.width <= kPixelsMax && image.channels >= 1 &&
      image.channels <= kChannelsMax) {
    return {};
  }
  return Invalid("an image of " + image.ToString() + " with " + std::to_string(image.channels) +
                 " channels; it must have from 1 to " + std::to_string(kPixelsMax) + " pixels and 1 to " +
                 std::to_string(kChannelsMax) + " channels");
}

inline Status CheckDropout(double probability) {
  if (probability >= 0 && probability < 1) return {};
  return Invalid("model.dropout is " + std::to_string(probability) + "; it must be at least 0 and below 1");
}

}  // namespace capstan::nn
