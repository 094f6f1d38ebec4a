#include "common/base/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::TempFolder;

std::string WriteWithMode(const TempFolder& folder, const std::string& name, const std::string& bytes, mode_t mode) {
  std::string path = folder.Write(name, bytes);
  chmod(path.c_str(), mode);
  return path;
}

TEST_CASE("a secret is read whole from a file of its owner, also through a link", "[secret]") {
  const TempFolder folder;
  const std::string bytes("a\0b\n", 4), most(kSecretBytesMax, 'x');
  const std::string file = WriteWithMode(folder, "file", bytes, 0400), link = folder.path("link");
  REQUIRE(symlink(file.c_str(), link.c_str()) == 0);
  CHECK(ReadSecretFile(file).value() == bytes);
  CHECK(ReadSecretFile(link).value() == bytes);
  CHECK(ReadSecretFile(WriteWithMode(folder, "most", most, 0600)).value() == most);
}

TEST_CASE("a file that others may use, or that is no file, is no secret, and the reason names it", "[secret]") {
  const TempFolder folder;
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0666}) {
    const std::string file = WriteWithMode(folder, "file", "secret", mode);
    const Status status = ReadSecretFile(file).status();
    CAPTURE(mode, status.message());
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message() == file + " can be used by others than its owner; run: chmod 600 " + file);
  }
  const std::string pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, folder.path()}) {
    CHECK(ReadSecretFile(path).status().message() == path + " is not a file");
  }
  const std::string long_one = WriteWithMode(folder, "long", std::string(kSecretBytesMax + 1, 'x'), 0600);
  CHECK(ReadSecretFile(long_one).status().message() == long_one + " has more than 65536 bytes");
  const std::string empty = WriteWithMode(folder, "empty", "", 0600);
  CHECK(ReadSecretFile(empty).status().message() == empty + " is empty");
  CHECK(ReadSecretFile(folder.path("none")).status().code() == Code::kInvalid);
}

}  // namespace
}  // namespace capstan
