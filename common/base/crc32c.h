// Crc32c: the checksum CRC-32C (Castagnoli), as iSCSI and TensorBoard's files use it.
//
// Kind:   pure function.
// Limits: a table lookup for each byte, some hundred MB/s: for small records, not for weights.
// Source: RFC 3720, section 12.1 and appendix B.4 (test vectors).
#pragma once

#include <cstdint>
#include <string_view>

namespace capstan {

std::uint32_t Crc32c(std::string_view bytes);

}  // namespace capstan
