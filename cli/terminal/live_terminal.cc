#include "cli/terminal/live_terminal.h"

#include <signal.h>
#include <unistd.h>

namespace capstan::cli {
namespace {

constexpr char kCtrlC = 3, kCtrlD = 4, kCtrlZ = 26, kCtrlBackslash = 28;
constexpr char kHome[] = "\033[H", kEraseLine[] = "\033[K", kEraseBelow[] = "\033[J", kHideCursor[] = "\033[?25l";
constexpr char kSecondScreen[] = "\033[?1049h\033[?25l", kFirstScreen[] = "\033[?25h\033[?1049l";

}  // namespace

void LiveTerminal::Enter() {
  if (entered_) return;
  entered_ = true;
  if (termios settings{}; isatty(in_) != 0 && tcgetattr(in_, &settings) == 0) {
    saved_ = settings;
    settings.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl-S is a key, and stops no output
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 0;
    tcsetattr(in_, TCSANOW, &settings);
  }
  (void)output_.Write(kSecondScreen);  // nothing waits yet, so it is accepted
}

void LiveTerminal::Leave() {
  if (!entered_) return;
  entered_ = false;
  output_.Drain(kLeavePatience);
  (void)output_.Write(kFirstScreen);  // accepted: far less than BoundedOutput's limit can be waiting
  output_.Drain(kLeavePatience);
  if (saved_) tcsetattr(in_, TCSANOW, &*saved_);
  saved_.reset();
}

void LiveTerminal::Show(const std::vector<std::string>& lines) {
  output_.Flush();
  if (!entered_ || output_.waiting()) return;
  // Each line is erased before it is written, and the last with all below: behind a line of full width, some terminals
  // would erase its last character.
  std::string picture = kHome;
  for (std::size_t i = 0; i < lines.size(); ++i)
    picture += (i > 0 ? "\r\n" : "") + std::string(i + 1 < lines.size() ? kEraseLine : kEraseBelow) + lines[i];
  (void)output_.Write(picture + kHideCursor);  // nothing waits, so it is accepted
}

LiveTerminal::Key LiveTerminal::ReadKey() {
  char key = 0;
  if (!saved_ || read(in_, &key, 1) != 1) return Key::kNone;
  switch (key) {
    case 'q':
    case 'Q':
    case kCtrlC:
    case kCtrlD:
    case kCtrlBackslash: return Key::kQuit;
    case kCtrlZ: return Key::kSuspend;
    default: return Key::kRedraw;
  }
}

void LiveTerminal::Suspend() {
  Leave();
  kill(getpid(), SIGTSTP);  // it stops no process that no shell would continue
  Enter();
}

}  // namespace capstan::cli
