// TerminalLook: what may be printed on a descriptor: colors, movements of the cursor, characters beyond ASCII.
//
// Kind:   a value, and functions that ask the system.
#pragma once

#include <string>

namespace capstan::cli {

// The environment's variables that a look depends on; null: not set.
struct LookVariables {
  const char* term = nullptr;      // TERM
  const char* no_color = nullptr;  // NO_COLOR
  const char* lc_all = nullptr;    // LC_ALL, LC_CTYPE, LANG: the first that is set and not empty counts
  const char* lc_ctype = nullptr;
  const char* lang = nullptr;
};

struct TerminalLook {
  bool moves = false;   // it is a terminal whose cursor can be moved: lines may be replaced in place
  bool colors = false;  // it may get colors
  bool utf8 = false;    // it shows UTF-8
};

TerminalLook LookOf(bool is_terminal, const LookVariables& variables);
// Returns the look of a descriptor of this process.
TerminalLook LookOf(int fd);

struct TerminalSize {
  int columns = 80, rows = 24;
};
// Returns the size of the terminal at `fd` now; the usual one if it is no terminal, or does not know.
TerminalSize SizeOf(int fd);

// Returns `line` with its label "warning:" in bold yellow or "error:" in bold red, if it begins with one.
std::string Colored(const std::string& line);

}  // namespace capstan::cli
