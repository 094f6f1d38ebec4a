#include "cli/launch/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/utf8.h"

namespace capstan::cli {

Screen Screen::OfStderr() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  if (dumb || isatty(STDERR_FILENO) == 0) return Screen(0);
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return Screen(known ? size.ws_col : 80);
}

void Screen::Line(std::string_view text) {
  if (!live_.empty()) std::fputs("\r\033[K", stderr);
  std::fprintf(stderr, "%s\n", Printable(text).c_str());
  if (!live_.empty()) std::fputs(live_.c_str(), stderr);
  std::fflush(stderr);
}

void Screen::Live(const std::string& text) {
  if (!is_terminal() || text == live_) return;
  live_ = text.substr(0, static_cast<std::size_t>(std::max(width_ - 1, 1)));
  std::fprintf(stderr, "\r\033[K%s", live_.c_str());
  std::fflush(stderr);
}

void Screen::Settle() {
  if (!live_.empty()) std::fputs("\n", stderr);
  live_.clear();
}

}  // namespace capstan::cli
