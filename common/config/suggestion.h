// DidYouMean: finds the word that a user probably meant.
//
// Kind:   pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace capstan {

// Returns the least number of insertions, deletions, replacements and swaps of neighbours that turn one word into the
// other.
std::size_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate that differs only in the case of letters; else the nearest one within two edits (one edit for
// words of up to three letters), the first of equally near ones; else "".
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> candidates);

// Returns a text such as "; did you mean "staleness"?", or "" if no candidate is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace capstan
