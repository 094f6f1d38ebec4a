#include "cli/launch/screen.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/terminal/columns.h"
#include "cli/terminal/terminal_look.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

constexpr std::string_view kWarning = "warning: ", kError = "error: ";

bool IsPipe(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
}

}  // namespace

Screen Screen::OfStderr(Volume volume) {
  Options options;
  options.volume = volume;
  options.is_pipe = IsPipe(STDERR_FILENO);
  const TerminalLook look = LookOf(STDERR_FILENO);
  if (look.moves) options.width = [] { return SizeOf(STDERR_FILENO).columns; };
  if (look.colors) options.colors = Colors::kSome;
  return Screen(std::move(options), STDERR_FILENO);
}

std::string LabelOf(Severity severity) {
  switch (severity) {
    case Severity::kInfo: return "";
    case Severity::kWarning: return std::string(kWarning);
    case Severity::kError: return std::string(kError);
  }
  return "";
}

void Screen::Line(std::string_view text) {
  if (options_.volume == Volume::kQuiet && !text.starts_with(kWarning) && !text.starts_with(kError)) return;
  Write(Printable(text));
}

void Screen::Complain(std::string_view program, std::string_view text) {
  Write(std::string(program) + ": " + Printable(text));
}

void Screen::Write(const std::string& line) {
  Flush();
  std::string text = live_.empty() ? "" : "\r\033[K";
  live_ = Fitting(live_);  // the window may be narrower now
  text += (options_.colors == Colors::kSome ? Colored(line) : line) + "\n" + live_;
  if (left_out_ > 0 || !output_.Write(text)) ++left_out_;
}

void Screen::Live(const std::string& text) {
  Flush();
  if (!is_terminal() || options_.volume == Volume::kQuiet || output_.waiting()) return;
  const std::string line = Fitting(text);
  if (line != live_ && output_.Write("\r\033[K" + line)) live_ = line;
}

std::string Screen::Fitting(const std::string& text) const {
  return is_terminal() ? CutToColumns(text, static_cast<std::size_t>(std::max(options_.width() - 1, 1))) : text;
}

void Screen::Settle() {
  if (!live_.empty() && output_.Write("\n")) live_.clear();
  output_.Drain(kEndPatience);
  Flush();
}

void Screen::Flush() {
  output_.Flush();
  if (left_out_ == 0 || output_.waiting()) return;
  const std::uint64_t count = std::exchange(left_out_, 0);
  Write("warning: " + std::to_string(count) + (count == 1 ? " line is" : " lines are") +
        " left out here, because nothing took them; the logs have what the processes wrote");
}

int Screen::reader_fd() const { return options_.is_pipe ? fd_ : -1; }

}  // namespace capstan::cli
