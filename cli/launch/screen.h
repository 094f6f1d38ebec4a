// Screen: shows lines on stderr; some stay, and on a terminal the newest one is updated in place.
//
// Kind:   owned by one thread. It waits for a terminal or a pipe's reader only when it is destroyed.
// Limits: BoundedOutput's. Lines that find no room are dropped, and their number is printed when there is room again.
//         When it is destroyed, pending text may take kEndPatience.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/launch/bounded_output.h"
#include "common/wire/actor.h"

namespace capstan::cli {

// Returns the prefix for a line of this severity: "warning: ", "error: ", or nothing.
std::string LabelOf(Severity severity);

class Screen {
 public:
  enum class Volume : std::uint8_t { kUsual, kQuiet };  // kQuiet: only warnings and errors
  enum class Colors : std::uint8_t { kNone, kSome };

  struct Options {
    // Returns the columns of the terminal. It is called each time a line is drawn, because the window may be resized.
    // Null: no terminal.
    std::function<int()> width;
    Colors colors = Colors::kNone;
    Volume volume = Volume::kUsual;
    bool is_pipe = false;  // the reader may go away
  };
  static constexpr std::chrono::seconds kEndPatience{1};

  // `fd` outlives this object.
  Screen(Options options, int fd) : options_(std::move(options)), fd_(fd), output_(fd) {}
  ~Screen() { output_.Drain(kEndPatience); }
  static Screen OfStderr(Volume volume = Volume::kUsual);

  bool is_terminal() const { return static_cast<bool>(options_.width); }
  // Prints a line that stays; control bytes from files and peers are escaped. A line that begins with "warning: " or
  // "error: " is highlighted.
  void Line(std::string_view text);
  // Prints "PROGRAM: TEXT" at any volume. The text says why a job has ended.
  void Complain(std::string_view program, std::string_view text);
  // Replaces the live line; does nothing if this is no terminal.
  void Live(const std::string& text);
  // Leaves the live line as it is and moves below it.
  void Settle();
  // Writes waiting text, as far as there is room.
  void Flush();

  // Returns the descriptor to poll for POLLERR, which reports that the reader is gone; negative: it cannot be noticed.
  int reader_fd() const;
  // Stops writing, because the reader is gone.
  void Close() { options_.is_pipe = false; }

 private:
  // Prints a line that stays, above the live one.
  void Write(const std::string& line);

  Options options_;
  const int fd_;
  BoundedOutput output_;
  std::string live_;
  std::uint64_t left_out_ = 0;  // lines dropped since the output last accepted all
};

// Returns `line` with its label in bold: yellow for a warning, red for an error.
std::string Colored(const std::string& line);

}  // namespace capstan::cli
