// KeyOf: a public key by which a test can tell keys apart. It belongs to no secret key.
#pragma once

#include <cstdint>

#include "common/keys/key_pair.h"

namespace capstan::testing {

inline PublicKey KeyOf(std::uint8_t first) {
  PublicKey key;
  key.bytes[0] = first;
  return key;
}

}  // namespace capstan::testing
