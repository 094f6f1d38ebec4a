// Screen: lines for people on stderr: some stay, the newest one is live when it is a terminal.
//
// Kind:   owned by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace capstan::cli {

class Screen {
 public:
  enum class Volume : std::uint8_t { kUsual, kQuiet };  // kQuiet: warnings and errors alone
  enum class Colors : std::uint8_t { kNone, kSome };

  struct Options {
    // Columns of the terminal, asked whenever a line is painted: people resize it. Empty: there is no terminal.
    std::function<int()> width;
    Colors colors = Colors::kNone;
    Volume volume = Volume::kUsual;
    bool is_pipe = false;  // whose reader may go away
  };
  explicit Screen(Options options) : options_(std::move(options)) {}
  static Screen OfStderr(Volume volume = Volume::kUsual);

  bool is_terminal() const { return static_cast<bool>(options_.width); }
  // A line that stays; control bytes of files and peers are escaped. One that begins with "warning: " or "error: " is
  // told from the others.
  void Line(std::string_view text);
  // Replaces the live line. Nothing when this is no terminal.
  void Live(const std::string& text);
  // Leaves the live line where it is and goes below it.
  void Settle();

  // To be polled for POLLERR, which says that nobody reads any more; negative: that cannot be known.
  int reader_fd() const;
  // Nobody reads: nothing is written any more.
  void Close() { options_.is_pipe = false; }

 private:
  Options options_;
  std::string live_;
};

// `line` with its label in bold and, of a warning, in yellow; of an error, in red.
std::string Colored(const std::string& line);

}  // namespace capstan::cli
