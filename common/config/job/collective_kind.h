// Collective, LocalReduce: what can add up gradients among workers.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// The library and the connections with which workers all-reduce gradients. kSecure: on CPUs, over encrypted
// connections. kGloo: on CPUs, over Gloo's connections in plaintext. kNccl: on the workers' devices. kAuto: kSecure if
// the job's messages are encrypted (CollectiveOf); else NCCL if every worker can use it on its device, else Gloo.
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
