// Collective, LocalReduce: the libraries that can add up gradients.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// The library that adds up gradients among the workers. kAuto: NCCL where each has a device with it, else Gloo.
enum class Collective : std::uint8_t { kAuto, kGloo, kNccl };

// Mode sync: whether the workers of one machine add up their gradients, so that one of them pushes for all. kGloo: over
// connections of Gloo, on the CPU. kNccl: on the device of the first of them, to which the others' send theirs.
enum class LocalReduce : std::uint8_t { kNone, kGloo, kNccl };

}  // namespace capstan
