// SecuritySection: section [security] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// The transport of a job's messages, which decides who may take part. docs/explanation/design/transports.md explains
// each word.
enum class TransportWord : std::uint8_t {
  kAuto,  // kLocal, unless [cluster] has an address for TCP; then kCurve if the coordinator's has a key, else kPlaintext
  kLocal,      // Unix sockets in a private folder: processes of one user on one machine
  kPlaintext,  // TCP: every process that reaches an address
  kCurve,      // TCP, encrypted: processes whose keys are in the allow list
};

struct SecuritySection {
  TransportWord transport = TransportWord::kAuto;
  // Whether the workers' own connections (mode allreduce, allreduce.local_reduce) may be in plaintext where the job's
  // other messages are encrypted.
  bool plaintext_collectives = false;
  bool operator==(const SecuritySection&) const = default;
};

}  // namespace capstan
