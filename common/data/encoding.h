// Encode, Decode: the numbers of a payload, to and from how they are written.
//
// Kind:   pure functions. Encoded numbers need no alignment.
// Why:    a worker that computes with 16 bits needs no more on its way; the servers keep fp32 (PROTOCOL.md 3.2).
#pragma once

#include <cstddef>
#include <span>

#include "common/base/types.h"

namespace capstan {

inline std::size_t BytesPerNumber(Encoding encoding) { return encoding == Encoding::kFp32 ? 4 : 2; }
const char* NameOf(Encoding encoding);  // "fp32", "bf16", "fp16"

// `count` numbers; exact.
void Decode(Encoding encoding, const std::byte* from, std::size_t count, float* to);
// Each rounded to nearest even. `to` may be where `from` lies: numbers that are written lie below those yet to be read.
void Encode(Encoding encoding, std::span<const float> from, std::byte* to);
// The values that would arrive.
void RoundTo(Encoding encoding, std::span<float> values);

}  // namespace capstan
