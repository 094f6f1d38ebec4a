// SealHeader, OpenHeader: eight bytes after an encoded header that detect damage in transit.
//
// Kind:   pure functions.
// Fails:  kCorrupt: the header differs from what was sealed, or its payload has another size.
// Why:    TCP's 16-bit checksum misses some damage, and a header with a flipped bit may still decode. With the seal, a
//         damaged message is dropped, and then treated like a lost one. The payload's hash is in the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// Appends XXH3-64 of the header, little endian. The seed is the size of the payload.
void SealHeader(std::size_t payload_bytes, std::vector<std::byte>* header);

// Returns the header without its seal, if the seal is right.
Result<std::span<const std::byte>> OpenHeader(std::span<const std::byte> sealed, std::size_t payload_bytes);

}  // namespace capstan
