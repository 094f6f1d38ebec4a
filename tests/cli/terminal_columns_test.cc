#include "cli/terminal/columns.h"

#include "cli/terminal/terminal_look.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

TEST_CASE("columns are counted, not bytes", "[cli][terminal]") {
  CHECK(ColumnsOf("abc") == 3);
  CHECK(ColumnsOf("\u00e9") == 1);        // e with an accent
  CHECK(ColumnsOf("e\u0301") == 1);       // e, and an accent over it
  CHECK(ColumnsOf("\u6f22\u5b57") == 4);  // two Chinese characters
  CHECK(ColumnsOf("\U0001f600") == 2);
  CHECK(ColumnsOf("\xff\xc3") == 2);  // no characters
}

TEST_CASE("a text is cut between characters, and a cut is marked", "[cli][terminal]") {
  CHECK(CutToColumns("worker-0", 8) == "worker-0");
  CHECK(CutToColumns("worker-10", 8) == "worker-~");
  CHECK(CutToColumns("\u6f22\u5b57", 3) == "\u6f22~");
  CHECK(CutToColumns("\u6f22\u5b57", 2) == "~");
  CHECK(CutToColumns("abc", 0).empty());
  CHECK(PadToColumns("\u6f22", 4) == "\u6f22  ");
  CHECK(PadToColumns("abcdef", 4) == "abc~");
  CHECK(AsciiOf("caf\u00e9 \u6f22") == "caf? ?");
}

TEST_CASE("what a terminal shows depends on TERM, NO_COLOR and the locale", "[cli][terminal]") {
  const auto look = [](bool is_terminal, const LookVariables& variables) {
    const TerminalLook found = LookOf(is_terminal, variables);
    return std::string(found.moves ? "m" : "-") + (found.colors ? "c" : "-") + (found.utf8 ? "u" : "-");
  };
  CHECK(look(true, {.term = "xterm", .lang = "de_DE.UTF-8"}) == "mcu");
  CHECK(look(true, {.term = "xterm", .no_color = "1", .lang = "C"}) == "m--");
  CHECK(look(true, {.term = "xterm", .no_color = ""}) == "mc-");
  CHECK(look(true, {.term = "dumb", .lang = "C.utf8"}) == "--u");
  CHECK(look(true, {}) == "---");
  CHECK(look(false, {.term = "xterm", .lang = "C.utf8"}) == "--u");
  CHECK(look(true, {.term = "xterm", .lc_all = "C", .lang = "C.utf8"}) == "mc-");
  CHECK(look(true, {.term = "xterm", .lc_all = "", .lc_ctype = "C.UTF-8", .lang = "C"}) == "mcu");
}

TEST_CASE("only a label at the beginning of a line has a color", "[cli][terminal]") {
  CHECK(Colored("warning: slow") == "\033[1;33mwarning:\033[0m slow");
  CHECK(Colored("error: lost") == "\033[1;31merror:\033[0m lost");
  CHECK(Colored("no warning: fine") == "no warning: fine");
}

}  // namespace
}  // namespace capstan::cli
