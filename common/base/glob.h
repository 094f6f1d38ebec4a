// GlobMatches: shell patterns over names and paths.
//
// Kind:   pure functions.
// Why:    `*` also matches `/`, unlike a shell's: "c++/*" is everything below c++, "*.bias" every bias.
#pragma once

#include <string_view>

namespace capstan {

// `*` is any text, `?` any one byte, all else itself. The whole text must match.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace capstan
