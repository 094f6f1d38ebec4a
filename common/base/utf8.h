// IsUtf8, CleanUtf8, Printable, Excerpt: check and clean text that is stored, printed or sent.
//
// Kind:   pure functions. Text is UTF-8 without zero bytes.
// Why:    a text of a peer or of a file must not move the cursor of a terminal, forge a line of a log, or fill a disk.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan {

bool IsUtf8(std::string_view text);

// Returns `text` with '?' in place of every invalid byte, cut between characters to at most `bytes_max` bytes.
std::string CleanUtf8(std::string_view text, std::size_t bytes_max);

// Makes `text` safe for a terminal: control characters, marks that turn the direction of writing, and bytes that are
// not UTF-8 are written like \x1B. Line ends and tabs are kept, because messages may have several lines.
std::string Printable(std::string_view text);
// Makes `text` safe for a terminal, like Printable, but also writes line ends and tabs as \x0A and \x09.
std::string PrintableLine(std::string_view text);

inline constexpr std::size_t kExcerptBytesMax = 256;       // of a name
inline constexpr std::size_t kLongExcerptBytesMax = 2048;  // of a sentence that says why something failed

// Makes a text of a peer safe within a line of a log: like PrintableLine, and cut to at most `bytes_max` bytes and
// "...".
std::string Excerpt(std::string_view text, std::size_t bytes_max = kExcerptBytesMax);

}  // namespace capstan
