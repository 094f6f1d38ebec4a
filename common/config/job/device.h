// Device, Precision: the hardware that a worker computes on, and its number format.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <optional>

namespace capstan {

enum class DeviceKind : std::uint8_t { kCpu, kCuda, kEmulated };
// kFp16: gradients are scaled; in sync the coordinator chooses the scale of each step.
enum class Precision : std::uint8_t { kFp32, kFp16, kBf16 };

// "cuda": the worker's position among the workers of its machine picks the device. "cuda:1": device number 1.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<std::uint32_t> index = {};
  bool operator==(const Device&) const = default;
};

}  // namespace capstan
