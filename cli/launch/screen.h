// Screen: lines for people on stderr: some stay, the newest one is live when it is a terminal.
//
// Kind:   owned by one thread. It never waits for the terminal or the reader of a pipe, except at its end.
// Limits: BoundedOutput's. Lines that find no room are left out, and their number is written when there is room again.
//         At the end text may take kEndPatience.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/launch/bounded_output.h"
#include "common/wire/actor.h"

namespace capstan::cli {

// The label that a line of this weight begins with: "warning: ", "error: ", or nothing.
std::string LabelOf(Severity severity);

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
  static constexpr std::chrono::seconds kEndPatience{1};

  // `fd` outlives this.
  Screen(Options options, int fd) : options_(std::move(options)), fd_(fd), output_(fd) {}
  ~Screen() { output_.Drain(kEndPatience); }
  static Screen OfStderr(Volume volume = Volume::kUsual);

  bool is_terminal() const { return static_cast<bool>(options_.width); }
  // A line that stays; control bytes of files and peers are escaped. One that begins with "warning: " or "error: " is
  // told from the others.
  void Line(std::string_view text);
  // "PROGRAM: TEXT", whatever the volume: why a job has ended.
  void Complain(std::string_view program, std::string_view text);
  // Replaces the live line. Nothing when this is no terminal.
  void Live(const std::string& text);
  // Leaves the live line where it is and goes below it.
  void Settle();
  // Writes what found no room before, as far as there is room now.
  void Flush();

  // To be polled for POLLERR, which says that nobody reads any more; negative: that cannot be known.
  int reader_fd() const;
  // Nobody reads: nothing is written any more.
  void Close() { options_.is_pipe = false; }

 private:
  // A line that stays, above the live one.
  void Write(const std::string& line);

  Options options_;
  const int fd_;
  BoundedOutput output_;
  std::string live_;
  std::uint64_t left_out_ = 0;  // lines, since the output last took all
};

// `line` with its label in bold and, of a warning, in yellow; of an error, in red.
std::string Colored(const std::string& line);

}  // namespace capstan::cli
