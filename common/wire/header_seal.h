// SealHeader, OpenHeader: eight bytes behind an encoded header by which damage on the way is noticed.
//
// Kind:   pure functions.
// Fails:  kCorrupt: the header is not what was sealed, or the payload beside it has another size.
// Why:    TCP's checksum lets one damaged segment in some ten thousand pass, and a number of a header that is another
//         one is still a header. The payload's own hash is in the header. Without the seal a flipped bit could be
//         believed; with it, a damaged message is a lost one, which every request is repeated for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace capstan {

// Appends XXH3-64 of the header, seeded with the size of the payload that goes with it, little endian.
void SealHeader(std::size_t payload_bytes, std::vector<std::byte>* header);

// The header within a sealed one.
Result<std::span<const std::byte>> OpenHeader(std::span<const std::byte> sealed, std::size_t payload_bytes);

}  // namespace capstan
