// Seal, Unseal: text with its hash in front, as "<16 hex digits> <text>".
//
// Kind:   pure functions.
// Why:    text from a disk or a peer is parsed only if every byte is as it was written. The hash also covers a number,
//         such as the previous line's hash, so a missing or misplaced line of a log is found, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::server {

inline constexpr std::size_t kSealBytes = 17;  // bytes in front of the text

// Computes the XXH3-64 of `previous` and the text.
std::uint64_t SealHash(std::uint64_t previous, std::string_view text);

std::string Seal(std::uint64_t previous, std::string_view text);

// Returns the hash that a seal states; nothing if the text does not begin with a seal.
std::optional<std::uint64_t> StatedHash(std::string_view sealed);

// Returns the text without its seal; nothing if it is not what was sealed with `previous`.
std::optional<std::string_view> Unseal(std::uint64_t previous, std::string_view sealed);

// Whether `sealed`, without some bytes at its end, is what was sealed with `previous`, as a text that ends with `last`.
// Takes time in proportion to the length.
bool BeginsWithSealed(std::uint64_t previous, std::string_view sealed, char last);

}  // namespace capstan::server
