// Device, Precision: the hardware that a worker computes on, and its number format.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <optional>

namespace capstan {

enum class DeviceKind : std::uint8_t { kCpu, kCuda, kEmulated };
// kFp16: the loss is scaled. In modes sync and allreduce the coordinator chooses each step's scale; in the others each
// slot has its own.
enum class Precision : std::uint8_t { kFp32, kFp16, kBf16 };

// "cuda": the worker's --local-rank picks one of the machine's devices. "cuda:1": device number 1, counted from 0.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::optional<std::uint32_t> index = {};
  bool operator==(const Device&) const = default;
};

}  // namespace capstan
