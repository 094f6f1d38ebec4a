#include "cli/terminal/columns.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace capstan::cli {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Characters that are drawn over the one before them.
constexpr std::array<Range, 8> kNarrowest = {{{0x0300, 0x036F},
                                              {0x0483, 0x0489},
                                              {0x0591, 0x05BD},
                                              {0x064B, 0x065F},
                                              {0x1AB0, 0x1AFF},
                                              {0x200B, 0x200D},
                                              {0x20D0, 0x20FF},
                                              {0xFE00, 0xFE0F}}};
// Characters of East Asian scripts, and pictures.
constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115F},
                                         {0x2E80, 0xA4CF},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0xFFE0, 0xFFE6},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};

template <std::size_t Count>
bool IsIn(const std::array<Range, Count>& ranges, std::uint32_t character) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.first <= character && character <= range.last; });
}

struct Character {
  std::size_t bytes, columns;
};

// Returns the first character of a text that is not empty. A byte that begins no character counts as one column.
Character FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes == 1 || text.size() < bytes) return {1, 1};
  std::uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return {bytes, IsIn(kNarrowest, code) ? 0U : IsIn(kWide, code) ? 2U : 1U};
}

}  // namespace

std::size_t ColumnsOf(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character first = FirstOf(text);
    columns += first.columns;
    text.remove_prefix(first.bytes);
  }
  return columns;
}

std::string CutToColumns(std::string_view text, std::size_t columns) {
  if (ColumnsOf(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t bytes = 0;
  for (std::size_t used = 0; bytes < text.size();) {
    const Character next = FirstOf(text.substr(bytes));
    if (used + next.columns > columns - 1) break;  // one is for the mark
    used += next.columns;
    bytes += next.bytes;
  }
  return std::string(text.substr(0, bytes)) + "~";
}

std::string PadToColumns(std::string_view text, std::size_t columns) {
  std::string padded = CutToColumns(text, columns);
  padded.append(columns - ColumnsOf(padded), ' ');
  return padded;
}

std::string AsciiOf(std::string_view text) {
  std::string ascii;
  while (!text.empty()) {
    const Character first = FirstOf(text);
    ascii += first.bytes == 1 && static_cast<unsigned char>(text.front()) < 0x80 ? text.front() : '?';
    text.remove_prefix(first.bytes);
  }
  return ascii;
}

}  // namespace capstan::cli
