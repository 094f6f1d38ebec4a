// Collective, LocalReduce: what can add up gradients among workers.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// What adds up gradients among the workers. kSecure: the workers' CPUs, over encrypted connections. kGloo: the same,
// over Gloo's connections in plaintext. kNccl: the workers' devices. kAuto: NCCL if every worker can use it on its
// device, else Gloo; but kSecure if the job's messages are encrypted (CollectiveOf).
enum class Collective : std::uint8_t { kAuto, kGloo, kNccl, kSecure };

// Whether gradients may be added up on the workers' devices.
constexpr bool MayUseDevices(Collective collective) {
  return collective == Collective::kAuto || collective == Collective::kNccl;
}

// Mode sync: whether the workers of one machine add up their gradients, so that one of them pushes for all. kGloo and
// kSecure: on the CPU, over connections as above. kNccl: on the first worker's device, which receives the other
// devices' gradients.
enum class LocalReduce : std::uint8_t { kNone, kGloo, kNccl, kSecure };

}  // namespace capstan
