#include "cli/terminal/terminal_look.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace capstan::cli {
namespace {

bool IsSet(const char* variable) { return variable != nullptr && *variable != 0; }

// Whether the name of a locale, such as "de_DE.UTF-8" or "C.utf8", says that texts are UTF-8.
bool NamesUtf8(const char* locale) {
  std::string name = locale;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("utf-8") != name.npos || name.find("utf8") != name.npos;
}

}  // namespace

TerminalLook LookOf(bool is_terminal, const LookVariables& variables) {
  TerminalLook look;
  look.moves = is_terminal && variables.term != nullptr && std::string_view(variables.term) != "dumb";
  look.colors = look.moves && !IsSet(variables.no_color);
  for (const char* locale : {variables.lc_all, variables.lc_ctype, variables.lang}) {
    if (!IsSet(locale)) continue;
    look.utf8 = NamesUtf8(locale);
    break;
  }
  return look;
}

TerminalLook LookOf(int fd) {
  return LookOf(isatty(fd) != 0, {std::getenv("TERM"), std::getenv("NO_COLOR"), std::getenv("LC_ALL"),
                                  std::getenv("LC_CTYPE"), std::getenv("LANG")});
}

TerminalSize SizeOf(int fd) {
  TerminalSize size;
  winsize now{};
  if (ioctl(fd, TIOCGWINSZ, &now) != 0) return size;
  if (now.ws_col > 0) size.columns = now.ws_col;
  if (now.ws_row > 0) size.rows = now.ws_row;
  return size;
}

std::string Colored(const std::string& line) {
  for (const auto& [label, color] : {std::pair<std::string_view, const char*>("warning:", "\033[1;33m"),
                                     std::pair<std::string_view, const char*>("error:", "\033[1;31m")}) {
    if (line.starts_with(std::string(label) + " "))
      return color + line.substr(0, label.size()) + "\033[0m" + line.substr(label.size());
  }
  return line;
}

}  // namespace capstan::cli
