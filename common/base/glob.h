// GlobMatches: shell patterns over names and paths.
//
// Kind:   a pure function of its arguments and the locale: in a UTF-8 locale `?` is a character, else a byte.
// Why:    `*` also matches `/`, unlike a shell's: "c++/*" is everything below c++, "*.bias" every bias. `\` is itself.
#pragma once

#include <fnmatch.h>

#include <string>

namespace capstan {

// `*` is any text, `?` any one character, `[0-9]` one of a set, all else itself. The whole text must match.
inline bool GlobMatches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace capstan
