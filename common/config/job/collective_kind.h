// Collective, LocalReduce: the libraries that can add up gradients.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// The library that adds up gradients among the workers. kAuto: NCCL if every worker can use it on its
// device, else Gloo.
enum class Collective : std::uint8_t { kAuto, kGloo, kNccl };

// Mode sync: whether the workers of one machine add up their gradients, so that one of them pushes for all. kGloo: on
// the CPU, over Gloo's connections. kNccl: on the first worker's device, which receives the other devices' gradients.
enum class LocalReduce : std::uint8_t { kNone, kGloo, kNccl };

}  // namespace capstan
