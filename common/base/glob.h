// GlobMatches: shell patterns over names and paths.
//
// Kind:   a pure function of its arguments and the locale: in a UTF-8 locale `?` matches one character, else one byte.
// Why:    `*` also matches `/`, unlike in a shell: "c++/*" matches everything below c++, and "*.bias" every bias.
#pragma once

#include <fnmatch.h>

#include <string>

namespace capstan {

// Whether the whole text matches. In a pattern, `*` stands for any text, `?` for any one character, and `[0-9]` for one
// character of a set. Everything else stands for itself, also `\`.
inline bool GlobMatches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace capstan
