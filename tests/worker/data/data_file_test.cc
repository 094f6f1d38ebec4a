#include "worker/data/data_file.h"

#include <array>
#include <cstring>
#include <filesystem>

#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace capstan;
using namespace capstan::train;
using capstan::testing::TempFolder;
using Catch::Matchers::Contains;

namespace {

std::string Read(const DataFile& file, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  const Status status = file.Read(offset, std::as_writable_bytes(std::span(bytes)));
  return status.ok() ? bytes : status.message();
}

TEST_CASE("any piece of a file of data can be read", "[data]") {
  const TempFolder folder;
  const Result<DataFile> file = DataFile::Open(folder.Write("tokens", "0123456789"));
  REQUIRE(file.ok());
  CHECK(file->size() == 10);
  CHECK(Read(*file, 0, 10) == "0123456789");
  CHECK(Read(*file, 7, 3) == "789");
  CHECK(Read(*file, 10, 0).empty());
  CHECK(file->CheckUnchanged().ok());
}

TEST_CASE("a file that is cut between a check and a read is an error in words", "[data]") {
  const TempFolder folder;
  const std::string path = folder.Write("tokens", std::string(1 << 16, 'x'));
  const Result<DataFile> file = DataFile::Open(path);
  REQUIRE(file.ok());
  CHECK(file->CheckUnchanged().ok());
  std::filesystem::resize_file(path, 4096);
  CHECK(Read(*file, 0, 4096) == std::string(4096, 'x'));
  std::array<std::byte, 8> bytes{};
  for (const std::uint64_t offset : {std::uint64_t{4096}, std::uint64_t{4092}, std::uint64_t{60000}}) {
    const Status status = file->Read(offset, bytes);
    CHECK(status.code() == Code::kCorrupt);
    CHECK_THAT(status.message(), Contains("tokens: had 65536 bytes when this worker opened it"));
  }
  CHECK(file->CheckUnchanged().code() == Code::kCorrupt);
}

}  // namespace
