// EncodeHeader, DecodeHeader: a message's header to and from the bytes of schema/wire.capnp.
//
// Kind:   pure functions.
// Limits: those of message_fields.h and kHeaderBytesMax; they hold for encoding and decoding.
// Fails:  kInvalid (encoding a value beyond a limit), kCorrupt (bytes that are not a header), kUnsupported (another
//         protocol version). No bytes can crash the decoder or make it throw. It allocates at most a small multiple of
//         their number, and up to kStagedNodesMax nodes for each list of staged nodes, which are sent as runs.
// Why:    only wire_codec.cc uses Cap'n Proto, and Cap'n Proto's exceptions stop there. Received bytes are copied
//         before reading, because frames may be unaligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/wire/message.h"
#include "common/wire/messages/limits.h"

namespace capstan {

inline constexpr std::uint32_t kProtocolMagic = 0x54535043;  // "CPST"
inline constexpr std::uint16_t kProtocolVersion = 4;

inline constexpr std::size_t kHeaderBytesMax = kFrameBytesMax;

// Replaces the contents of `out` and keeps its capacity, so a reused vector mostly costs no allocation. Texts for users
// (messages, reasons) are cut and cleaned to fit. Any other breach of a limit is kInvalid and leaves `out` empty.
Status EncodeHeader(const Header& header, std::vector<std::byte>* out);

Result<Header> DecodeHeader(std::span<const std::byte> bytes);

}  // namespace capstan
