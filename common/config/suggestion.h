// DidYouMean: the word a person probably meant.
//
// Kind:   pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace capstan {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that differs in the case of letters alone, else the one at most two edits away (one for words of up to
// three letters), the first of the nearest; "" if none.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates);

// "; did you mean "staleness"?" or "".
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace capstan
