// Encode, Decode: convert the numbers of a payload between fp32 and the payload's encoding.
//
// Kind:   pure functions. Encoded numbers need no alignment.
// Why:    a worker that computes with 16 bits needs no more bits on the wire; the servers keep fp32.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/types.h"

namespace capstan {

inline std::size_t BytesPerNumber(Encoding encoding) { return encoding == Encoding::kFp32 ? 4 : 2; }
const char* NameOf(Encoding encoding);  // "fp32", "bf16", "fp16"

// Decodes `count` numbers, exactly.
void Decode(Encoding encoding, const std::byte* from, std::size_t count, float* to);
// Encodes numbers, each rounded to nearest, ties to even. `to` may be the memory of `from`: a write never reaches
// numbers that are still to be read.
void Encode(Encoding encoding, std::span<const float> from, std::byte* to);
// Rounds each value as Encode followed by Decode would.
void RoundTo(Encoding encoding, std::span<float> values);

}  // namespace capstan
