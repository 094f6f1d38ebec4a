// IsUtf8, CleanUtf8, Printable: text that may be stored, printed and sent: UTF-8 without zero bytes.
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

// `text` as a terminal may have it: control bytes, and bytes that are no UTF-8, are written as \x1B. Line ends and tabs
// stay: messages of ours have several lines.
std::string Printable(std::string_view text);
// The same for what is to be part of one line: line ends and tabs are written as \x0A and \x09 as well.
std::string PrintableLine(std::string_view text);

}  // namespace capstan
