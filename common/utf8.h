// IsUtf8, CleanUtf8: text that may be stored, printed and sent: UTF-8 without zero bytes.
//
// Kind:   pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan {

bool IsUtf8(std::string_view text);

// `text` with '?' for every byte that does not belong, cut between characters to at most `bytes_max` bytes.
std::string CleanUtf8(std::string_view text, std::size_t bytes_max);

}  // namespace capstan
