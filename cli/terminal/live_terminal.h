// LiveTerminal: a terminal on which a program replaces the whole picture again and again, and reads keys.
//
// Kind:   owned by one thread. Between Enter and Leave it has the terminal's second screen, without a cursor, and keys
//         arrive one by one. Leave and the destructor restore what was before.
// Limits: BoundedOutput's. A picture is left out while the terminal takes nothing; Leave waits up to kLeavePatience.
// Why:    Ctrl-C and Ctrl-Z arrive as keys, so neither ends or stops the program before the terminal is restored.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/bounded_output.h"

namespace capstan::cli {

class LiveTerminal {
 public:
  static constexpr std::chrono::seconds kLeavePatience{1};
  enum class Key { kNone, kQuit, kSuspend, kRedraw };

  // `in` gives keys, if it is a terminal; `out` is one. Both outlive this object.
  LiveTerminal(int in, int out) : in_(in), output_(out) {}
  ~LiveTerminal() { Leave(); }
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;

  void Enter();
  void Leave();
  // Shows these lines, which fit the terminal, in place of what is there.
  void Show(const std::vector<std::string>& lines);
  // Reads one key without waiting. q, Ctrl-C, Ctrl-D and Ctrl-\ are kQuit.
  Key ReadKey();
  // The descriptor that becomes readable with a key; negative: keys cannot be read.
  int key_fd() const { return saved_ ? in_ : -1; }
  // Leaves the terminal, stops this process until it is continued, and enters again.
  void Suspend();

 private:
  const int in_;
  BoundedOutput output_;
  std::optional<termios> saved_;  // the settings of `in_` to restore
  bool entered_ = false;
};

}  // namespace capstan::cli
