#include "common/base/utf8.h"

#include <algorithm>

namespace capstan {

namespace {

// Returns the length of the character that `text` starts with; 0 if it starts with an invalid or zero byte.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return first == 0 ? 0 : 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool shortest = first != 0xE0 || second >= 0xA0, surrogate = first == 0xED && second >= 0xA0;
    return continues(1) && continues(2) && shortest && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool shortest = first != 0xF0 || second >= 0x90, in_range = first != 0xF4 || second < 0x90;
    return continues(1) && continues(2) && continues(3) && shortest && in_range ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string CleanUtf8(std::string_view text, std::size_t bytes_max) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text), taken = std::max<std::size_t>(length, 1);
    if (clean.size() + taken > bytes_max) break;
    clean += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(taken);
  }
  return clean;
}

namespace {

// Whether the character is a control character: one of C0, DEL, or one of C1, which take two bytes in UTF-8.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0);
}

std::string Escape(std::string_view text, std::string_view kept) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string printable;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text), taken = std::max<std::size_t>(length, 1);
    const std::string_view character = text.substr(0, taken);
    text.remove_prefix(taken);
    if (length > 0 && (!IsControl(character) || kept.find(character) != kept.npos)) {
      printable += character;
      continue;
    }
    for (const char c : character) {
      const auto byte = static_cast<unsigned char>(c);
      printable += "\\x";
      printable += kHex[byte >> 4];
      printable += kHex[byte & 15];
    }
  }
  return printable;
}

}  // namespace

std::string Printable(std::string_view text) { return Escape(text, "\n\t"); }

std::string PrintableLine(std::string_view text) { return Escape(text, ""); }

}  // namespace capstan
