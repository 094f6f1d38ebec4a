// GlobMatches: shell patterns over names and paths.
//
// Kind:   a pure function of its arguments and the locale: in a UTF-8 locale `?` is a character, else a byte.
// Why:    `*` also matches `/`, unlike a shell's: "c++/*" is everything below c++, "*.bias" every bias. `\` is itself.
#pragma once

#include <fnmatch.h>

#include <string>

namespace capstan {

// Whether the whole text matches. In a pattern, `*` stands for any text, `?` for any one character, `[0-9]` for one of
// a set, and everything else for itself.
inline bool GlobMatches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace capstan
