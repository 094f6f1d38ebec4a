#include "common/base/glob.h"

#include "tests/catch.h"

using capstan::GlobMatches;

TEST_CASE("a pattern matches the whole text or nothing", "[glob]") {
  CHECK(GlobMatches("*.h", "stdio.h"));
  CHECK_FALSE(GlobMatches("*.h", "stdio.hpp"));
  CHECK_FALSE(GlobMatches("stdio", "stdio.h"));
  CHECK(GlobMatches("", ""));
  CHECK_FALSE(GlobMatches("", "a"));
  CHECK(GlobMatches("?.h", "a.h"));
  CHECK_FALSE(GlobMatches("?.h", ".h"));
}

TEST_CASE("a star matches any text, slashes too", "[glob]") {
  CHECK(GlobMatches("c++/*", "c++/12/bits/stl_vector.h"));
  CHECK(GlobMatches("*", ""));
  CHECK(GlobMatches("a*b*c", "aXbXbXc"));
  CHECK_FALSE(GlobMatches("a*b*c", "aXbXbX"));
  CHECK(GlobMatches("**x**", "x"));
}

TEST_CASE("brackets are a set of characters, a backslash is itself", "[glob]") {
  CHECK(GlobMatches("h.[0-3].*", "h.2.attn"));
  CHECK_FALSE(GlobMatches("h.[0-3].*", "h.4.attn"));
  CHECK(GlobMatches("w[[]0]", "w[0]"));
  CHECK(GlobMatches("w[0", "w[0"));  // no set without its end
  CHECK(GlobMatches("a\\*", "a\\b"));
  CHECK_FALSE(GlobMatches("\\*", "*"));
}

TEST_CASE("a leading dot and bytes that are not UTF-8 are text like any other", "[glob]") {
  CHECK(GlobMatches("*", ".hidden"));
  CHECK(GlobMatches("a/*", "a/.hidden"));
  CHECK(GlobMatches("?.h", "\xFF.h"));
  CHECK(GlobMatches("*.h", "\xC3\xA9\xFF.h"));
}

TEST_CASE("a hostile pattern ends soon", "[glob]") {
  std::string pattern;
  for (int i = 0; i < 30; ++i) pattern += "*a";
  CHECK_FALSE(GlobMatches(pattern + "b", std::string(2000, 'a')));
}
