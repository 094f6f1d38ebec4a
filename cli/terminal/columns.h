// ColumnsOf, CutToColumns, PadToColumns, AsciiOf: texts by the columns that a terminal shows them in.
//
// Kind:   pure functions. Texts are UTF-8 without control characters, as PrintableLine returns them.
// Why:    a letter with an accent takes two bytes and one column, and a Chinese one three bytes and two columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::cli {

std::size_t ColumnsOf(std::string_view text);

// Returns the text, or as much of it as fits into `columns`; a text that was cut ends with '~'.
std::string CutToColumns(std::string_view text, std::size_t columns);

// Like CutToColumns, and adds blanks after a text that is shorter.
std::string PadToColumns(std::string_view text, std::size_t columns);

// Returns the text with '?' in place of each character that is not ASCII, for terminals of other encodings.
std::string AsciiOf(std::string_view text);

}  // namespace capstan::cli
