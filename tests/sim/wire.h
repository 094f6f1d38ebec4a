// Wire: turns messages into what their receivers decode. Every message that a simulated process sends goes through the
// codec, the seal and the frame limit of the transport.
//
// Kind:   owned by the cluster.
// Fails:  kInvalid: the message cannot be encoded, or is longer than a frame, and repeating it would not help.
// Why:    a message that exceeds a limit of the codec or the transport makes the simulated job fail at once.
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

  // Encodes, seals, opens and decodes the message's header, and replaces it by the result.
  Status Transfer(Message* message);
  // Bytes of the last message's header, with its seal.
  std::size_t header_bytes() const { return header_.size(); }
  std::uint64_t header_hash() const { return Hash64(header_); }

 private:
  const std::size_t frame_bytes_max_;
  std::vector<std::byte> header_;
};

}  // namespace capstan::sim
