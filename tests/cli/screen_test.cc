#include "cli/launch/screen.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

// A pipe in place of the terminal, whose width the test sets.
struct Terminal {
  Terminal() {
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  }
  ~Terminal() {
    close(ends[0]);
    close(ends[1]);
  }
  Screen::Options Options(Screen::Colors colors = Screen::Colors::kNone) {
    Screen::Options options;
    options.width = [this] { return width; };
    options.colors = colors;
    return options;
  }
  std::string Read() const {
    std::array<char, 4096> bytes{};
    const ssize_t got = read(ends[0], bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  std::array<int, 2> ends{};
  int width = 20;
};

TEST_CASE("the live line fits the terminal that there is when it is drawn", "[cli][screen]") {
  Terminal terminal;
  Screen screen(terminal.Options(), terminal.ends[1]);
  screen.Live("step 1/9  loss 2.5000  9 s left");
  CHECK(terminal.Read() == "\r\033[Kstep 1/9  loss 2.5~");
  terminal.width = 10;
  screen.Live("step 2/9  loss 2.5000  9 s left");
  CHECK(terminal.Read() == "\r\033[Kstep 2/9~");
  terminal.width = 80;
  screen.Live("step 3/9  loss 2.5000  9 s left");
  CHECK(terminal.Read() == "\r\033[Kstep 3/9  loss 2.5000  9 s left");
}

TEST_CASE("a line that stays is put above the live one, cut to the width that there is now", "[cli][screen]") {
  Terminal terminal;
  Screen screen(terminal.Options(), terminal.ends[1]);
  screen.Live("step 1/9  loss");
  (void)terminal.Read();
  terminal.width = 8;
  screen.Line("a line that stays as it is");
  CHECK(terminal.Read() == "\r\033[Ka line that stays as it is\nstep 1~");
}

TEST_CASE("labels have colors where the terminal may have them", "[cli][screen]") {
  Terminal terminal;
  Screen colored(terminal.Options(Screen::Colors::kSome), terminal.ends[1]);
  colored.Line("warning: slow \033[2J");
  CHECK(terminal.Read() == "\033[1;33mwarning:\033[0m slow \\x1B[2J\n");
  Screen plain(terminal.Options(), terminal.ends[1]);
  plain.Line("warning: slow");
  CHECK(terminal.Read() == "warning: slow\n");
}

TEST_CASE("without a terminal there is no live line", "[cli][screen]") {
  Terminal terminal;
  Screen screen(Screen::Options{}, terminal.ends[1]);
  screen.Live("step 1/9");
  screen.Line("step 1/9");
  CHECK(terminal.Read() == "step 1/9\n");
}

}  // namespace
}  // namespace capstan::cli
