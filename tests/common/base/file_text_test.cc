#include "common/base/file_text.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
namespace {

using testing::TempFolder;

TEST_CASE("a file is read to its end, or as far as was asked for", "[common][file]") {
  const TempFolder folder;
  std::string text(10'000, 'x');
  text[9'999] = '\0';
  const std::string path = folder.Write("file", text);
  for (const std::size_t most : {0, 1, 4'096, 9'999}) CHECK(ReadFileText(path, most).value() == text.substr(0, most));
  for (const std::size_t most : {10'000, 10'001, 1 << 20}) CHECK(ReadFileText(path, most).value() == text);
  CHECK(ReadFileText(folder.Write("empty", ""), 10).value().empty());
}

TEST_CASE("a file that cannot be read gives the reason", "[common][file]") {
  const TempFolder folder;
  CHECK(ReadFileText(folder.path("none"), 10).status().code() == Code::kInvalid);
  CHECK(ReadFileText(folder.path("none"), 10).status().message() == "No such file or directory");
  CHECK(ReadFileText(folder.path(), 10).status().message() == "Is a directory");
}

// This process holds the file open, so its path there can be opened again, and then not be read.
TEST_CASE("the file of a process that ends before it is read gives the reason", "[common][file]") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(0);
  const int held = open(("/proc/" + std::to_string(child) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(held);
  CHECK(ReadFileText(path, 1 << 10).value().starts_with(std::to_string(child) + " ("));
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(ReadFileText(path, 1 << 10).status().message() == "No such process");
  close(held);
}

}  // namespace
}  // namespace capstan
