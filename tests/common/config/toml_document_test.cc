#include "common/config/toml_document.h"

#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string MessageOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Status status = TomlDocument::Parse(text, "job.toml", overrides).status();
  CHECK(status.code() == Code::kInvalid);
  return status.message();
}

std::string TextOf(const TomlDocument& document, const std::string& section, const std::string& key) {
  const TomlEntry* entry = document.Find(section, key);
  REQUIRE(entry != nullptr);
  return std::get<std::string>(entry->value.data);
}

TEST_CASE("a letter outside a text, or a sign where a name must be, is refused at its place", "[config][toml]") {
  for (const char* text : {"\xC3\xA4 = 1", "a\xC3\xA4 = 1", "a = \xC3\xA4", "a = 1\xC3\xA4", "[\xC3\xA4]", "[&", "[[&",
                           "a = {\xC3\xA4", "a = [\xD0\x96]", "\xE2\xBA\x80 = 1", "\xEF\xBE\xA1"}) {
    CAPTURE(text);
    CHECK_THAT(MessageOf(text), StartsWith("job.toml:1:"));
  }
}

TEST_CASE("letters stand in texts, comments and bare overrides", "[config][toml]") {
  const auto document = TomlDocument::Parse("# \xC3\xA4\n[a]\nb = '\xC3\xA4'\n", "job.toml", {"a.c=a\xC3\xA4 b"});
  REQUIRE(document.ok());
  CHECK(TextOf(*document, "a", "b") == "\xC3\xA4");
  CHECK(TextOf(*document, "a", "c") == "a\xC3\xA4 b");
}

TEST_CASE("tables within tables without end are refused, or are a text", "[config][toml]") {
  std::string deep = "a";
  for (int i = 0; i < 400'000; ++i) deep += ".a";
  CHECK_THAT(MessageOf("\n[" + deep + "]"), StartsWith("job.toml:2:1: this line has more than 1000 dots"));
  CHECK_THAT(MessageOf(deep + " = 1"), StartsWith("job.toml:1:1: this line has more than 1000 dots"));
  const auto document = TomlDocument::Parse("", "job.toml", {"a.b={" + deep + "=1}"});
  REQUIRE(document.ok());
  CHECK(TextOf(*document, "a", "b") == "{" + deep + "=1}");
}

TEST_CASE("of a long line, the piece around the place is shown", "[config][toml]") {
  const std::string padding(100'000, ' ');
  const std::string message = MessageOf("a = {" + padding + "b = *" + padding + "}");
  CAPTURE(message);
  CHECK(message.size() < 1000);
  const std::size_t line = message.find('\n') + 1, carets = message.find('\n', line) + 1;
  CHECK_THAT(message.substr(line), StartsWith("    1 | ...   ") && Contains("   ...\n"));
  CHECK(message[line + message.find('^', carets) - carets] == '*');
}

}  // namespace
}  // namespace capstan
