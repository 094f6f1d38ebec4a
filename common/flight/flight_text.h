// PutText, TextIn, PutShortName: texts in arrays of fixed size.
//
// Kind:   pure functions without memory of their own; a signal handler may call PutText.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace capstan {

// Copies the text, or as much of it as fits. Fills the rest with zero bytes.
template <std::size_t kBytes>
void PutText(std::string_view text, std::array<char, kBytes>* place) {
  const std::size_t size = std::min(text.size(), kBytes);
  std::memcpy(place->data(), text.data(), size);
  std::memset(place->data() + size, 0, kBytes - size);
}

template <std::size_t kBytes>
std::string_view TextIn(const std::array<char, kBytes>& place) {
  const auto end = std::find(place.begin(), place.end(), '\0');
  return {place.data(), static_cast<std::size_t>(end - place.begin())};
}

// Copies the name. Of a name that is too long, the first characters and the last ones are kept, because names of one
// machine often differ at the end only.
template <std::size_t kBytes>
void PutShortName(std::string_view name, std::array<char, kBytes>* place) {
  if (name.size() <= kBytes) return PutText(name, place);
  constexpr std::size_t kFirst = kBytes / 2 - 2, kLast = kBytes - kFirst - 1;
  std::memcpy(place->data(), name.data(), kFirst);
  (*place)[kFirst] = '~';
  std::memcpy(place->data() + kFirst + 1, name.data() + name.size() - kLast, kLast);
}

}  // namespace capstan
