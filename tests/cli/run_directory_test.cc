#include "cli/run_directory.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "common/file_lock.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

TEST_CASE("a run directory is held by one job and used for one run", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::string path = scratch.path("a/b");
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
  const TempFolder scratch;
  std::ofstream(scratch.path("metrics.jsonl")).flush();
  CHECK(RunDirectory::Create(scratch.path(), "job").ok());
}

TEST_CASE("what a failed start has left is cleared away, but not what a server has by now", "[cli][run_directory]") {
  const TempFolder scratch;
  for (const char* shard : {"0", "1"}) {
    std::filesystem::create_directories(scratch.path("snapshots/") + shard);
    std::ofstream(scratch.path("snapshots/") + shard + "/OWNER").flush();
  }
  const Result<FileLock> server = FileLock::Acquire(scratch.path("snapshots/1/OWNER"), 0);
  REQUIRE(server.ok());
  CHECK(RunDirectory::Create(scratch.path(), "job").ok());
  CHECK_FALSE(std::filesystem::exists(scratch.path("snapshots/0")));
  CHECK(std::filesystem::exists(scratch.path("snapshots/1/OWNER")));
}

TEST_CASE("a run directory goes when it has a default name and no step", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  const Result<RunDirectory> fresh = RunDirectory::Create("", "job"), used = RunDirectory::Create("", "job"),
                             chosen = RunDirectory::Create("mine", "job");
  REQUIRE((fresh.ok() && used.ok() && chosen.ok()));
  std::ofstream(used->path() + "/metrics.jsonl") << "{}\n";
  CHECK(fresh->Discard());
  CHECK_FALSE(std::filesystem::exists(fresh->path()));
  CHECK_FALSE(used->Discard());
  CHECK(std::filesystem::exists(used->path()));
  CHECK_FALSE(chosen->Discard());
  CHECK(std::filesystem::exists(chosen->path()));
  std::filesystem::current_path(before);
}

TEST_CASE("jobs that start within one second get folders of their own", "[cli][run_directory]") {
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
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
