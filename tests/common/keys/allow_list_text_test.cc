// Tests of allow lists with one key more or less.
#include "common/keys/allow_list_text.h"

#include <sys/stat.h>

#include "common/keys/allow_list.h"
#include "tests/catch.h"
#include "tests/common/keys/key_of.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using testing::KeyOf;
using testing::TempFolder;

TEST_CASE("a section that is added is read as it was meant", "[keys]") {
  for (const char* title : {"worker-1", "w_1", "host.example"}) {
    const std::string text = "# ours" + AllowListSection(title, KeyOf(1), {Role::kWorker, "w1"});
    const AllowList list = AllowList::Parse(text, "allow.toml").value();
    CHECK(list.KeyIn(title) == KeyOf(1));
    CHECK(list.Find(KeyOf(1), {}) == Principal{Role::kWorker, "w1", KeyOf(1)});
    CHECK(list.KeysOf(Role::kWorker) == std::vector{KeyOf(1)});
    CHECK(list.KeysOf(Role::kReader).empty());
  }
  CHECK_THAT(AllowListSection("reader", KeyOf(1), {Role::kReader, ""}), !Contains("name"));
}

TEST_CASE("a section is removed from wherever it stands, and the comments stay", "[keys]") {
  const std::string first = AllowListSection("a", KeyOf(1), {Role::kServer, ""}),
                    second = AllowListSection("b.c", KeyOf(2), {Role::kWorker, "w"}),
                    third = AllowListSection("d", KeyOf(3), {Role::kReader, ""});
  const std::string comment = "# the one in the cellar\n", text = "# head\n" + first + comment + second + third;
  CHECK(WithoutSection(text, "a", "f").value() == "# head\n\n" + comment + second + third);
  CHECK(WithoutSection(text, "b.c", "f").value() == "# head\n" + first + comment + "\n" + third);
  CHECK(WithoutSection(text, "d", "f").value() == "# head\n" + first + comment + second + "\n");
  const std::string cut = text.substr(0, text.size() - 1);  // its last line has no end
  CHECK(WithoutSection(cut, "d", "f").value() == "# head\n" + first + comment + second + "\n");
  CHECK_THAT(WithoutSection(text, "e", "f").status().message(), Contains("f has no section [e]"));
  CHECK_FALSE(WithoutSection("[a", "a", "f").ok());
}

TEST_CASE("a list that others may write is not read", "[keys]") {
  const TempFolder folder;
  const std::string path = folder.Write("allow.toml", "x");
  CHECK(ReadAllowListText(path).value() == "x");
  REQUIRE(chmod(path.c_str(), 0602) == 0);
  CHECK_THAT(ReadAllowListText(path).status().message(), Contains("run: chmod 600 " + path));
  CHECK_THAT(ReadAllowListText(folder.path("none")).status().message(), Contains("capstan keygen makes one"));
  CHECK_THAT(ReadAllowListText(folder.path()).status().message(), Contains("Is a directory"));
}

}  // namespace
}  // namespace capstan
