#include "common/base/durable_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::TempFolder;

std::string TextOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

unsigned ModeOf(const std::string& path) {
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("a file is replaced as a whole, and is this user's alone", "[common][file]") {
  const TempFolder folder;
  const std::string path = folder.Write("job.toml", "old, and longer than the new one");
  REQUIRE(WriteFileDurably(path, "new").ok());
  CHECK(TextOf(path) == "new");
  CHECK(ModeOf(path) == 0600);
  CHECK(!std::filesystem::exists(path + ".partial"));
}

TEST_CASE("what lies under the name of an unfinished file is removed, and not written to", "[common][file]") {
  const TempFolder folder;
  const std::string victim = folder.Write("victim", "of great value"), path = folder.path("job.toml");
  const std::string partial = path + ".partial";
  SECTION("a link") { REQUIRE(symlink(victim.c_str(), partial.c_str()) == 0); }
  SECTION("a second name of another file") { REQUIRE(link(victim.c_str(), partial.c_str()) == 0); }
  SECTION("what another start left") { folder.Write("job.toml.partial", "half"); }
  REQUIRE(WriteFileDurably(path, "new").ok());
  CHECK(TextOf(victim) == "of great value");
  CHECK(TextOf(path) == "new");
}

TEST_CASE("a folder under the name of an unfinished file is an error that names it", "[common][file]") {
  const TempFolder folder;
  folder.Write("job.toml.partial/kept", "");
  const Status status = WriteFileDurably(folder.path("job.toml"), "new");
  CHECK(status.message().find("job.toml.partial") != std::string::npos);
  CHECK(std::filesystem::exists(folder.path("job.toml.partial/kept")));
}

TEST_CASE("a folder is this user's alone, and its parents have the usual mode", "[common][file]") {
  const TempFolder folder;
  const mode_t mask = umask(022);
  const Status made = MakeFolders(folder.path("runs/digits"));
  umask(mask);
  REQUIRE(made.ok());
  CHECK(ModeOf(folder.path("runs")) == 0755);
  CHECK(ModeOf(folder.path("runs/digits")) == 0700);
  CHECK(MakeFolders(folder.path("runs")).ok());
  CHECK(ModeOf(folder.path("runs")) == 0755);
}

}  // namespace
}  // namespace capstan
