#include "tests/sim/wire.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/wire/header_seal.h"
#include "common/wire/wire_codec.h"

namespace capstan::sim {

Status Wire::Transfer(Message* message) {
  CAPSTAN_RETURN_IF_ERROR(EncodeHeader(message->header, &header_));
  SealHeader(message->payload.size, &header_);
  if (std::max(header_.size(), message->payload.size) > frame_bytes_max_) {
    return Invalid("a message of " + std::to_string(header_.size()) + " + " + std::to_string(message->payload.size) +
                   " bytes; each part may have " + std::to_string(frame_bytes_max_));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto header, OpenHeader(header_, message->payload.size));
  CAPSTAN_ASSIGN_OR_RETURN(message->header, DecodeHeader(header));
  return {};
}

}  // namespace capstan::sim
