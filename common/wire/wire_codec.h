// EncodeHeader, DecodeHeader: a message's header to and from the bytes of schema/wire.capnp.
//
// Kind:   pure functions.
// Limits: the constants below; each holds in both directions.
// Fails:  kInvalid (encoding what breaks a limit), kCorrupt (bytes that are no header), kUnsupported (another protocol
//         version). No bytes can do more: not crash, not throw, not allocate beyond a small multiple of their number.
// Why:    the one place that knows Cap'n Proto; its exceptions stop here. Received bytes are copied before they are
//         read, because frames arrive unaligned.
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
inline constexpr std::uint16_t kProtocolVersion = 1;

inline constexpr std::size_t kHeaderBytesMax = kFrameBytesMax;
inline constexpr std::size_t kListEntriesMax = 65536;   // of every list; a catalog has at most kTensorsMax
inline constexpr std::size_t kDimensionsMax = 8;        // of a tensor
inline constexpr std::size_t kTextBytesMax = 64 << 10;  // UTF-8 without zero bytes
inline constexpr std::size_t kJobFileBytesMax = 1 << 20;

// Replaces what `out` holds and keeps its capacity, so that a reused vector costs no allocation. Texts that only people
// read (messages, reasons) are cut and cleaned to fit; any other breach of a limit is kInvalid and leaves `out` empty.
Status EncodeHeader(const Header& header, std::vector<std::byte>* out);

Result<Header> DecodeHeader(std::span<const std::byte> bytes);

}  // namespace capstan
