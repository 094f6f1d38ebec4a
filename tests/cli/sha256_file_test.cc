#include "cli/report/sha256_file.h"

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;

// The checksums of "abc" and of a million times "a" are examples of the standard, FIPS 180.
TEST_CASE("the sum of a file is the one of the standard", "[cli][sha256]") {
  const testing::TempFolder folder;
  CHECK(Sha256OfFile(folder.Write("empty", "")).value() ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256OfFile(folder.Write("abc", "abc")).value() ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256OfFile(folder.Write("million", std::string(1000000, 'a'))).value() ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a file larger than what is read at a time has one sum, whatever its size", "[cli][sha256]") {
  const testing::TempFolder folder;
  std::string bytes(std::size_t{1} << 20, 'x');
  const std::string at_the_limit = Sha256OfFile(folder.Write("limit", bytes)).value();
  bytes += 'y';
  const std::string behind_it = Sha256OfFile(folder.Write("behind", bytes)).value();
  CHECK(at_the_limit != behind_it);
  CHECK(Sha256OfFile(folder.Write("again", bytes)).value() == behind_it);
}

TEST_CASE("a file that cannot be read has no sum, and the reason names it", "[cli][sha256]") {
  const testing::TempFolder folder;
  CHECK_THAT(Sha256OfFile(folder.path("none")).status().message(), Contains("none: No such file"));
  CHECK_THAT(Sha256OfFile(folder.path()).status().message(), Contains("Is a directory"));
}

}  // namespace
}  // namespace capstan::cli
