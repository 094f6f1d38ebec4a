// Screen: prints lines on stderr. On a terminal, a live line below them is replaced in place.
//
// Kind:   owned by one thread. Only Settle and the destructor wait for a slow reader, for up to kEndPatience.
// Limits: BoundedOutput's. Lines that find no room are dropped, and their number is printed when there is room again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/terminal/bounded_output.h"
#include "common/wire/actor.h"

namespace capstan::cli {

// Returns the prefix for a line of this severity: "warning: ", "error: ", or nothing.
std::string LabelOf(Severity severity);

class Screen {
 public:
  enum class Volume : std::uint8_t { kUsual, kQuiet };  // kQuiet: only warnings and errors
  enum class Colors : std::uint8_t { kNone, kSome };

  struct Options {
    // Returns the columns of the terminal. It is called each time the live line is drawn, because the window may be
    // resized. Null: no terminal.
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
  // Prints a line that stays, with control bytes escaped. With kQuiet, only lines that begin with "warning: " or
  // "error: " are printed. With colors, these words are highlighted.
  void Line(std::string_view text);
  // Prints "PROGRAM: TEXT" at any volume. The text says why a job has ended.
  void Complain(std::string_view program, std::string_view text);
  // Replaces the live line. Does nothing without a terminal, with kQuiet, or while earlier text waits for room.
  void Live(const std::string& text);
  // Leaves the live line as it is, moves below it, and writes waiting text for up to kEndPatience.
  void Settle();
  // Writes waiting text, as far as there is room.
  void Flush();

  // Returns the descriptor to poll for POLLERR, which shows that the pipe's reader is gone; negative: there is no pipe.
  int reader_fd() const;
  // Stops watching for the end of the reader: reader_fd() is negative from now on.
  void Close() { options_.is_pipe = false; }

 private:
  // Returns as much of a live line as the terminal's width has room for now.
  std::string Fitting(const std::string& text) const;
  // Prints a line that stays, above the live one.
  void Write(const std::string& line);

  Options options_;
  const int fd_;
  BoundedOutput output_;
  std::string live_;
  std::uint64_t left_out_ = 0;  // lines dropped since the output last accepted all
};

}  // namespace capstan::cli
