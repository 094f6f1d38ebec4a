// Wire: turns messages into what their receivers decode. Every message of a simulated cluster goes through the codec,
// the seal and the frame limit of the transport.
//
// Kind:   owned by the cluster.
// Fails:  kInvalid: the message cannot be encoded, or is longer than a frame, and repeating it would not help.
// Why:    if a long or large job exceeds a limit of the codec, the simulated job fails by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/hash.h"
#include "common/wire/message.h"
#include "common/wire/transport.h"

namespace capstan::sim {

class Wire {
 public:
  explicit Wire(std::size_t frame_bytes_max = TransportOptions{}.frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  // Replaces the message by the one that its receiver decodes.
  Status Transfer(Message* message);
  // Bytes of the last message's header, with its seal.
  std::size_t header_bytes() const { return header_.size(); }
  std::uint64_t header_hash() const { return Hash64(header_); }

 private:
  const std::size_t frame_bytes_max_;
  std::vector<std::byte> header_;
};

}  // namespace capstan::sim
