// Seal, Unseal: text behind its own hash, as "<16 hex digits> <text>".
//
// Kind:   pure functions.
// Why:    what is read back from a disk or a peer is looked at only when it is, byte by byte, what was written; the
//         hash of one line goes into the next, so that a line that is missing or out of place is noticed too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::server {

inline constexpr std::size_t kSealBytes = 17;  // in front of the text

// XXH3-64 of `previous` and the text.
std::uint64_t SealHash(std::uint64_t previous, std::string_view text);

std::string Seal(std::uint64_t previous, std::string_view text);

// The hash that a seal states; nothing when these are not the first bytes of a sealed text.
std::optional<std::uint64_t> StatedHash(std::string_view sealed);

// The text; nothing when it is not the one that was sealed after `previous`.
std::optional<std::string_view> Unseal(std::uint64_t previous, std::string_view sealed);

}  // namespace capstan::server
