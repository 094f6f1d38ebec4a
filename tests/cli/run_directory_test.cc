#include "cli/run_directory.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace capstan::cli {
namespace {

TEST_CASE("a run directory is held by one job and used for one run", "[cli][run_directory]") {
  std::string pattern = (std::filesystem::temp_directory_path() / "run-directory-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  const std::string path = folder + "/a/b";
  {
    const Result<RunDirectory> first = RunDirectory::Create(path, "job");
    REQUIRE(first.ok());
    CHECK(std::filesystem::is_directory(path + "/logs"));
    const Status second = RunDirectory::Create(path, "job").status();
    CHECK(second.code() == Code::kInvalid);
    CHECK(second.message().find("in use by another job (process ") != std::string::npos);
  }
  CHECK(RunDirectory::Create(path, "job").ok());
  std::ofstream(path + "/metrics.jsonl") << "{}\n";
  CHECK(RunDirectory::Create(path, "job").status().message().find("holds a run already") != std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace capstan::cli
