#include "cli/run/followed_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/rotated_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using Lines = std::vector<std::string>;

void Append(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::app) << text; }

Lines ReadAll(FollowedFile* file, std::uint64_t bytes_max = FollowedFile::kAll) {
  Lines lines;
  while (file->Read([&](std::string_view line) { lines.emplace_back(line); }, bytes_max)) {
  }
  return lines;
}

TEST_CASE("a file is read on across rotations, however many lie between two calls", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  FollowedFile file(path);
  CHECK(ReadAll(&file).empty());
  Append(path, "1\n2\nha");
  CHECK(ReadAll(&file) == Lines{"1", "2"});
  CHECK(file.rest() == "ha");
  Append(path, "lf\n");
  REQUIRE(RotateFile(path, 9).ok());
  Append(path, "4\n");
  REQUIRE(RotateFile(path, 9).ok());
  Append(path, "5\n");
  CHECK(ReadAll(&file) == Lines{"half", "4", "5"});
  CHECK(ReadAll(&file).empty());
  FollowedFile later(path);
  CHECK(ReadAll(&later) == Lines{"1", "2", "half", "4", "5"});
}

TEST_CASE("a piece that is deleted while it is read loses none of its lines", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  FollowedFile file(path);
  Append(path, "1\n2\n3\n");
  Lines lines;
  REQUIRE(file.Read([&](std::string_view line) { lines.emplace_back(line); }, 2));
  for (const char* next : {"4\n", "5\n", "6\n"}) {
    REQUIRE(RotateFile(path, 1).ok());
    Append(path, next);
  }
  for (const std::string& line : ReadAll(&file)) lines.push_back(line);
  CHECK(lines == Lines{"1", "2", "3", "5", "6"});  // the piece with 4 was deleted before it was read
}

TEST_CASE("reading begins with the last lines, also where they are in several pieces", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  Append(path, "1\n2\n");
  REQUIRE(RotateFile(path, 9).ok());
  Append(path, "3\n4\n");
  const auto last = [&](std::size_t count) {
    FollowedFile file(path);
    file.SkipToLast(count);
    Lines lines = ReadAll(&file);
    if (!file.rest().empty()) lines.push_back(file.rest());
    return lines;
  };
  CHECK(last(0).empty());
  CHECK(last(1) == Lines{"4"});
  CHECK(last(2) == Lines{"3", "4"});
  CHECK(last(3) == Lines{"2", "3", "4"});
  CHECK(last(9) == Lines{"1", "2", "3", "4"});
  Append(path, "5");  // a line without an end counts
  CHECK(last(1) == Lines{"5"});
  CHECK(last(2) == Lines{"4", "5"});
  REQUIRE(RotateFile(path, 9).ok());
  Append(path, "");  // and an empty file has none
  std::ofstream(path, std::ios::app).flush();
  CHECK(last(2) == Lines{"4", "5"});
}

TEST_CASE("the last of very many lines are found without those before", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + "\n";
  Append(path, text);
  FollowedFile file(path);
  file.SkipToLast(50'000);
  const Lines lines = ReadAll(&file);
  REQUIRE(lines.size() == 50'000);
  CHECK(lines.front() == "50000");
  CHECK(lines.back() == "99999");
}

TEST_CASE("a line without an end is cut at its limit, so a damaged file takes little memory", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  Append(path, std::string(3 * FollowedFile::kLineBytesMax, 'x'));
  Append(path, "end\n");
  FollowedFile file(path);
  const Lines lines = ReadAll(&file);
  REQUIRE(lines.size() >= 3);
  std::size_t bytes = 0;
  for (const std::string& line : lines) {
    CHECK(line.size() < FollowedFile::kLineBytesMax + (std::size_t{1} << 16) + 1);
    bytes += line.size();
  }
  CHECK(bytes == 3 * FollowedFile::kLineBytesMax + 3);
}

TEST_CASE("a call reads about as much as it may, and the next goes on", "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  Append(path, "one\ntwo\nthree\n");
  FollowedFile file(path);
  Lines lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  CHECK(file.Read(take, 5));
  CHECK(lines == Lines{"one"});
  CHECK(file.Read(take, 5));
  CHECK(lines == Lines{"one", "two"});
  CHECK_FALSE(file.Read(take, 100));
  CHECK(lines == Lines{"one", "two", "three"});
}

TEST_CASE("a line that is cut off before its end is forgotten, and no line before it is read again",
          "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log");
  Append(path, "1\n2\ntorn");
  FollowedFile file(path);
  CHECK(ReadAll(&file) == Lines{"1", "2"});
  std::filesystem::resize_file(path, 6);  // a part of the line
  CHECK(ReadAll(&file).empty());
  CHECK(file.rest() == "to");
  std::filesystem::resize_file(path, 4);  // all of it
  CHECK(ReadAll(&file).empty());
  CHECK(file.rest().empty());
  Append(path, "3\nmore");
  CHECK(ReadAll(&file) == Lines{"3"});
  std::ofstream(path, std::ios::trunc) << "new\n";  // and a line before it too
  CHECK(ReadAll(&file) == Lines{"new"});
}

TEST_CASE("a file that was cut short is read from its beginning, and one that is a pipe is not waited for",
          "[cli][followed_file]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("a.log"), pipe = folder.path("b.log");
  Append(path, "a long line\n");
  FollowedFile file(path);
  CHECK(ReadAll(&file) == Lines{"a long line"});
  std::ofstream(path, std::ios::trunc) << "new\n";
  CHECK(ReadAll(&file) == Lines{"new"});
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  FollowedFile none(pipe);
  CHECK(ReadAll(&none).empty());
}

}  // namespace
}  // namespace capstan::cli
