// MeshPiece, MeshGrant, MeshControl: what the workers of a group send each other over connections of their own.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

namespace capstan {

// The payload is a part of one rank's message to another. A message is known by its tag and its size.
struct MeshPiece {
  std::uint64_t tag = 0, size = 0;
  std::uint64_t offset = 0;  // of the payload in the message
};

// The receiver of a message has memory for it, and has received so many bytes. The first grant, of 0 bytes, allows the
// sender to begin.
struct MeshGrant {
  std::uint64_t tag = 0, size = 0;
  std::uint64_t received = 0;
};

struct MeshControl {
  static constexpr std::size_t kBytesMax = 1024;

  std::string control;  // a Control of worker/collective, as it lies in memory: all ranks run one build
};

}  // namespace capstan
