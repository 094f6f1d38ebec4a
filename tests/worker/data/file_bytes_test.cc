#include "worker/data/file_bytes.h"

#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "tests/worker/data/gzip.h"

using namespace capstan;
using namespace capstan::train;
using capstan::testing::TempFolder;
using Catch::Matchers::Contains;

TEST_CASE("a path stays below the data folder", "[data]") {
  const std::filesystem::path root = "/srv/data";
  CHECK(*ResolveDataPath(root, "mnist/train") == "/srv/data/mnist/train");
  CHECK(*ResolveDataPath(root, "a/../b") == "/srv/data/b");
  CHECK(*ResolveDataPath(root, ".") == "/srv/data/");
  CHECK(*ResolveDataPath("/srv/data/", "x") == "/srv/data/x");
  CHECK(*ResolveDataPath(root, "/srv/data/x") == "/srv/data/x");
  CHECK(*ResolveDataPath("/", "/usr/include") == "/usr/include");
  CHECK(ResolveDataPath(".", "x")->is_absolute());
  for (const char* out : {"..", "../x", "a/../../x", "/etc/passwd", "/srv/database", "/srv/data/../x"}) {
    const auto resolved = ResolveDataPath(root, out);
    INFO(out);
    REQUIRE_FALSE(resolved.ok());
    CHECK_THAT(resolved.status().message(), Contains(out) && Contains("/srv/data") && Contains("--data-root"));
  }
  CHECK_FALSE(ResolveDataPath(root, std::string("a\0b", 3)).ok());
}

TEST_CASE("a file reads plain or packed", "[data]") {
  const TempFolder folder;
  std::string text(3 << 20, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  CHECK(*ReadUnpacked(folder.Write("plain", text)) == text);
  CHECK(*ReadUnpacked(folder.Write("packed.gz", Gzip(text))) == text);
  CHECK(ReadUnpacked(folder.Write("empty", ""))->empty());
}

TEST_CASE("a truncated gzip file is refused wherever it is cut", "[data]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i * i) + ",";
  const std::string packed = Gzip(text);
  for (const std::size_t size :
       {std::size_t{5}, std::size_t{20}, packed.size() / 2, packed.size() - 9, packed.size() - 1}) {
    const auto bytes = ReadUnpacked(folder.Write("cut.gz", packed.substr(0, size)));
    INFO(size);
    REQUIRE_FALSE(bytes.ok());
    CHECK(bytes.status().code() == Code::kCorrupt);
    CHECK_THAT(bytes.status().message(), Contains("cut.gz: ") && Contains("copy"));
  }
}

TEST_CASE("a damaged gzip file is refused", "[data]") {
  const TempFolder folder;
  std::string packed = Gzip(std::string(1000, 'a') + "bcd");
  packed[packed.size() - 6] ^= 1;  // in the checksum
  const auto bytes = ReadUnpacked(folder.Write("bad.gz", packed));
  REQUIRE_FALSE(bytes.ok());
  CHECK_THAT(bytes.status().message(), Contains("damaged gzip file"));
  const auto plain = ReadUnpacked(folder.Write("plain.gz", "1,2,3\n"));
  REQUIRE_FALSE(plain.ok());
  CHECK_THAT(plain.status().message(), Contains("named .gz but not in gzip format"));
}

TEST_CASE("what cannot be read says so at once", "[data]") {
  const TempFolder folder;
  const auto missing = ReadUnpacked(folder.path("missing.csv"));
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().code() == Code::kInvalid);
  CHECK_THAT(missing.status().message(), Contains("missing.csv: cannot read the data: No such file"));
  const auto directory = ReadUnpacked(folder.path());
  REQUIRE_FALSE(directory.ok());
  CHECK_THAT(directory.status().message(), Contains("Is a directory"));
  const std::filesystem::path pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::string bytes;
  CHECK_THAT(AppendFile(pipe, 10, &bytes).message(), Contains("not a regular file"));
}

TEST_CASE("data beyond the free memory is refused, packed data when half of it is full", "[data]") {
  const TempFolder folder;
  const MemoryLimit memory{std::uint64_t{8} << 20, "the control group"};
  const auto bomb = ReadUnpacked(folder.Write("bomb.gz", Gzip(std::string(64 << 20, 'x'))), memory);
  REQUIRE_FALSE(bomb.ok());
  CHECK_THAT(bomb.status().message(),
             Contains("bomb.gz: more than 4 MiB of data") && Contains("the control group has 8 MiB left"));
  CHECK(ReadUnpacked(folder.Write("fits.gz", Gzip(std::string(4 << 20, 'x'))), memory)->size() == 4 << 20);
  CHECK(ReadUnpacked(folder.Write("plain", std::string(7 << 20, 'x')), memory)->size() == 7 << 20);
  const std::string holes = folder.Write("holes", "x");
  std::filesystem::resize_file(holes, std::uint64_t{1} << 33);
  CHECK_THAT(ReadUnpacked(holes, memory).status().message(), Contains("holes: more than 8 MiB of data"));
  std::string bytes;
  CHECK_THAT(AppendFile(holes, kFileBytesMax, &bytes, memory).message(), Contains("holes: more than 8 MiB of data"));
  CHECK(AppendFile(holes, 5, &bytes, memory).ok());
  CHECK(bytes.size() == 5);
}

TEST_CASE("a file is appended up to the wanted size", "[data]") {
  const TempFolder folder;
  const auto file = folder.Write("a", "hello");
  std::string bytes = "x";
  CHECK(AppendFile(file, 3, &bytes).ok());
  CHECK(bytes == "xhel");
  CHECK(AppendFile(file, 100, &bytes).ok());
  CHECK(bytes == "xhelhello");
}
