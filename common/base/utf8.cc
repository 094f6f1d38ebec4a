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

// Whether the character moves a terminal's cursor, hides text or changes its order: a control character of C0 or C1,
// DEL, or one of Unicode's marks for line ends and for the direction of writing.
bool IsControl(std::string_view character) {
  const auto byte = [&](std::size_t i) { return i < character.size() ? static_cast<unsigned char>(character[i]) : 0U; };
  const unsigned first = byte(0), second = byte(1), third = byte(2);
  if (first < 0x20 || first == 0x7F || (first == 0xC2 && second < 0xA0)) return true;
  if (first != 0xE2) return false;
  if (second == 0x80) return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return second == 0x81 && third >= 0xA6 && third <= 0xA9;
}

// Writes control characters but those in `kept`, and bytes that are not UTF-8, as \xHH. Cuts the result between
// characters to at most `bytes_max` bytes and "...".
std::string Escape(std::string_view text, std::string_view kept, std::size_t bytes_max) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string printable;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text), taken = std::max<std::size_t>(length, 1);
    const std::string_view character = text.substr(0, taken);
    const bool plain = length > 0 && (!IsControl(character) || kept.find(character) != kept.npos);
    if (printable.size() + (plain ? taken : 4 * taken) > bytes_max) return printable + "...";
    text.remove_prefix(taken);
    if (plain) {
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

std::string Printable(std::string_view text) { return Escape(text, "\n\t", text.npos); }

std::string PrintableLine(std::string_view text) { return Escape(text, "", text.npos); }

std::string Excerpt(std::string_view text, std::size_t bytes_max) { return Escape(text, "", bytes_max); }

}  // namespace capstan
