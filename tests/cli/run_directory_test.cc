#include "cli/run_directory.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

namespace capstan::cli {
namespace {

struct Scratch {
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "run-directory-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::string folder;
};

TEST_CASE("a run directory is held by one job and used for one run", "[cli][run_directory]") {
  const Scratch scratch;
  const std::string path = scratch.folder + "/a/b";
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
}

TEST_CASE("a run directory whose run never committed a step can be used again", "[cli][run_directory]") {
  const Scratch scratch;
  std::ofstream(scratch.folder + "/metrics.jsonl").flush();
  CHECK(RunDirectory::Create(scratch.folder, "job").ok());
}

TEST_CASE("jobs that start within one second get folders of their own", "[cli][run_directory]") {
  const Scratch scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.folder);
  std::set<std::string> paths;
  for (int i = 0; i < 5; ++i) {  // each is let go at once, as by a job that ended
    const Result<RunDirectory> directory = RunDirectory::Create("", "job");
    REQUIRE(directory.ok());
    CHECK(directory->path().starts_with("runs/job-"));
    paths.insert(directory->path());
  }
  CHECK(paths.size() == 5);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace capstan::cli
