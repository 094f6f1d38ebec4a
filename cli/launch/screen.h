// Screen: lines for people on stderr: some stay, the newest one is live when it is a terminal.
//
// Kind:   owned by one thread.
#pragma once

#include <string>
#include <string_view>

namespace capstan::cli {

class Screen {
 public:
  // `width`: columns of the terminal, 0 when it is none.
  explicit Screen(int width) : width_(width) {}
  static Screen OfStderr();

  bool is_terminal() const { return width_ > 0; }
  // A line that stays; control bytes of files and peers are escaped.
  void Line(std::string_view text);
  // Replaces the live line. Nothing when this is no terminal.
  void Live(const std::string& text);
  // Leaves the live line where it is and goes below it.
  void Settle();

 private:
  int width_;
  std::string live_;
};

}  // namespace capstan::cli
