// Tests of folders that only one user can enter.
#include "common/base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::TempFolder;

constexpr uid_t kNobody = 65534;

TEST_CASE("a private folder is made, and found again by its path without links", "[common][folder]") {
  const TempFolder scratch;
  const Result<std::string> made = MakePrivateFolder(scratch.path("sockets"));
  INFO(made.status().message());
  REQUIRE(made.ok());
  CHECK(*made == fs::canonical(scratch.path("sockets")));
  CHECK(MakePrivateFolder(scratch.path("sockets")).value() == *made);
  fs::create_directory_symlink(scratch.path(), scratch.path("link"));
  CHECK(FindPrivateFolder(scratch.path("link/sockets")).value() == *made);
}

TEST_CASE("a folder that others can enter is refused with what to do", "[common][folder]") {
  const TempFolder scratch;
  const std::string folder = MakePrivateFolder(scratch.path("sockets")).value();
  for (const mode_t open : {0750U, 0701U, 0755U, 0770U}) {
    REQUIRE(chmod(folder.c_str(), open) == 0);
    const Status status = FindPrivateFolder(folder).status();
    INFO(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains(folder) && Contains("chmod 700"));
    CHECK_FALSE(MakePrivateFolder(folder).ok());
  }
  REQUIRE(chmod(folder.c_str(), 0500) == 0);
  CHECK(FindPrivateFolder(folder).ok());
}

TEST_CASE("a folder in one whose names others can take away is refused, unless it is sticky", "[common][folder]") {
  const TempFolder scratch;
  const std::string above = MakePrivateFolder(scratch.path("above")).value();
  const std::string folder = MakePrivateFolder(above + "/sockets").value();
  for (const mode_t open : {0775U, 0757U, 0777U}) {
    REQUIRE(chmod(above.c_str(), open) == 0);
    const Status status = FindPrivateFolder(folder).status();
    INFO(status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains("other users can replace") && Contains(above));
  }
  REQUIRE(chmod(above.c_str(), 01777) == 0);
  CHECK(FindPrivateFolder(folder).ok());
}

TEST_CASE("what is missing, a file or a link is no private folder", "[common][folder]") {
  const TempFolder scratch;
  CHECK_THAT(FindPrivateFolder(scratch.path("none")).status().message(), Contains("mkdir -m 700"));
  CHECK_THAT(FindPrivateFolder(scratch.Write("file", "x")).status().message(), Contains("is no folder"));
  REQUIRE(MakePrivateFolder(scratch.path("real")).ok());
  fs::create_directory_symlink(scratch.path("real"), scratch.path("link"));
  CHECK_THAT(MakePrivateFolder(scratch.path("link")).status().message(), Contains("is a link"));
  CHECK_FALSE(MakePrivateFolder(scratch.path("none/sockets")).ok());
}

TEST_CASE("a folder of another user's is refused, and one below it", "[common][folder]") {
  if (geteuid() != 0) {
    WARN("only the superuser can give a folder to another user");
    return;
  }
  const TempFolder scratch;
  const std::string above = MakePrivateFolder(scratch.path("above")).value();
  const std::string folder = MakePrivateFolder(above + "/sockets").value();
  REQUIRE(chown(folder.c_str(), kNobody, kNobody) == 0);
  CHECK_THAT(FindPrivateFolder(folder).status().message(), Contains("another user's (uid 65534"));
  REQUIRE(chown(folder.c_str(), 0, 0) == 0);
  REQUIRE(chown(above.c_str(), kNobody, kNobody) == 0);
  CHECK_THAT(FindPrivateFolder(folder).status().message(), Contains("could replace what lies in it"));
}

}  // namespace
}  // namespace capstan
