// Device, Precision: what a worker computes on, and in how many bits.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <optional>

namespace capstan {

enum class DeviceKind : std::uint8_t { kCpu, kCuda, kEmulated };
// kFp16: gradients come scaled, and the coordinator decides the scale of each step.
enum class Precision : std::uint8_t { kFp32, kFp16, kBf16 };

// "cuda" is the device that the worker's place among those of its machine gives it, "cuda:1" the one of that number.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<std::uint32_t> index = {};
  bool operator==(const Device&) const = default;
};

}  // namespace capstan
