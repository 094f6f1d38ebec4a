#include "cli/run/process_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/rotated_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

TEST_CASE("a log is put aside when it is large, its writer goes on in a new one, and few are kept", "[cli][process]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("server-0.log"), line(100, 'x');
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  REQUIRE(log >= 0);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(write(log, line.data(), line.size()) == 100);
    RotateLogIfLarge(path, log, 1000);
    CHECK((fcntl(log, F_GETFD) & FD_CLOEXEC) != 0);
  }
  const std::vector<std::string> formers = FormerFiles(path);
  REQUIRE(formers.size() == kFormerLogs);
  CHECK(formers.back() == folder.path("server-0.10.log"));
  for (const std::string& former : formers) CHECK(std::filesystem::file_size(former) == 1000);
  CHECK(std::filesystem::file_size(path) == 0);
  close(log);
}

TEST_CASE("what is written to is no file, and nothing is put aside", "[cli][process]") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("worker-0.log", "somebody's");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  RotateLogIfLarge(path, ends[1], 0);
  CHECK(FormerFiles(path).empty());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace capstan::cli
