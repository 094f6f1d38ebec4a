#include "common/base/utf8.h"

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("characters of one to four bytes are text", "[common][utf8]") {
  CHECK(IsUtf8(""));
  CHECK(IsUtf8("plain\n\x7F"));
  CHECK(IsUtf8(
      "\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF \xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"));
}

TEST_CASE("cut, overlong, reversed and out of range sequences are not text", "[common][utf8]") {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF0\x9F\x8E", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xC3", "\xC3(", "\xE2\x82("}) {
    INFO(bad);
    CHECK_FALSE(IsUtf8(bad));
  }
  CHECK_FALSE(IsUtf8(std::string_view("a\0b", 3)));
}

TEST_CASE("what is cleaned is text, no longer, and cut between characters", "[common][utf8]") {
  CHECK(CleanUtf8("a\xFF\xC3\xA9\x80", 100) == "a?\xC3\xA9?");
  CHECK(CleanUtf8("ab\xC3\xA9", 3) == "ab");
  CHECK(CleanUtf8("ab\xC3\xA9", 4) == "ab\xC3\xA9");
  CHECK(CleanUtf8("abc", 0).empty());
}

TEST_CASE("control bytes and bytes that are no text are written as numbers for a terminal", "[common][utf8]") {
  CHECK(Printable("red \x1B[31m, bell \x07, delete \x7F") == "red \\x1B[31m, bell \\x07, delete \\x7F");
  CHECK(Printable(std::string_view("\x7F"
                                   "ELF\0\xFF",
                                   6)) ==
        "\\x7F"
        "ELF\\x00\\xFF");
  CHECK(Printable("\xC2\x9B"
                  "2J") ==
        "\\xC2\\x9B"
        "2J");  // the C1 way to write ESC [
  CHECK(Printable("\xC3\xA9 \xE2\x82\xAC, two\nlines\tand a tab") == "\xC3\xA9 \xE2\x82\xAC, two\nlines\tand a tab");
  CHECK(PrintableLine("two\nlines\tand a tab") == "two\\x0Alines\\x09and a tab");
}

TEST_CASE("marks that turn the direction of writing or end a line are written as numbers", "[common][utf8]") {
  CHECK(Printable("\xE2\x80\xAE"
                  "cba") == "\\xE2\\x80\\xAEcba");
  CHECK(Printable("\xE2\x81\xA6 \xE2\x80\xA8 \xE2\x80\x8F") == "\\xE2\\x81\\xA6 \\xE2\\x80\\xA8 \\xE2\\x80\\x8F");
  CHECK(Printable("\xE2\x80\x94 \xE2\x82\xAC \xE2\x81\xB0") == "\xE2\x80\x94 \xE2\x82\xAC \xE2\x81\xB0");
}

TEST_CASE("a peer's text is one line of bounded length, and cut between characters", "[common][utf8]") {
  CHECK(Excerpt("worker \x1B]0;title\x07\n12:00:00 done") == "worker \\x1B]0;title\\x07\\x0A12:00:00 done");
  CHECK(Excerpt("abc", 3) == "abc");
  CHECK(Excerpt("abcd", 3) == "abc...");
  CHECK(Excerpt("ab\xC3\xA9", 3) == "ab...");
  CHECK(Excerpt("ab\n", 5) == "ab...");
  CHECK(Excerpt("\xFF", 4) == "\\xFF");
  CHECK(Excerpt(std::string(1 << 20, '\x1B')).size() <= kExcerptBytesMax + 3);
}

}  // namespace
}  // namespace capstan
