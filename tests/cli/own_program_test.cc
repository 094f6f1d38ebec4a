#include "cli/launch/own_program.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;
using Words = std::vector<std::string>;

EditableJobConfig ClientJob() {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  return config;
}

std::string Refusal(const Words& words, const JobConfig& config, const Words& variables = {"PATH=/bin"}) {
  return FindOwnProgram(words, config, variables).status().message();
}

bool Has(const Words& variables, const std::string& wanted) {
  return std::count(variables.begin(), variables.end(), wanted) == 1;
}

TEST_CASE("a program is found as a shell finds it, or said to be missing with what to write", "[cli][own_program]") {
  const EditableJobConfig config = ClientJob();
  const Result<OwnProgram> shell = FindOwnProgram({"sh", "-c", "true"}, config, {"PATH=/nowhere:/bin"});
  REQUIRE(shell.ok());
  CHECK(shell->path == "/bin/sh");
  CHECK(FindOwnProgram({"/bin/sh"}, config, {}).ok());
  CHECK(Refusal({"no-such-program"}, config) == "there is no program \"no-such-program\" in PATH");
  CHECK(Refusal({"/no/such/program"}, config) == "there is no program /no/such/program");
  const TempFolder scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  std::ofstream("train.py").flush();
  CHECK(Refusal({"train.py"}, config).ends_with("write python3 train.py"));
  CHECK(Refusal({"./train.py"}, config).find("is not executable") != std::string::npos);
  std::filesystem::current_path(before);
}

TEST_CASE("a job whose model capstan computes has no use for a program", "[cli][own_program]") {
  const std::string refusal = Refusal({"sh", "my train.sh"}, EditableJobConfig());
  CHECK(refusal.find("\"sh 'my train.sh'\"") != std::string::npos);
  CHECK(refusal.find("kind = \"client\"") != std::string::npos);
}

TEST_CASE("each program is told its place in the job, and keeps what it had", "[cli][own_program]") {
  OwnProgram program;
  program.variables = {"HOME=/a", "CAPSTAN_WORKER=another", "CAPSTAN_WORKERS=mine"};
  const Words variables = EnvironmentOf(program, {"127.0.0.1:5", "", "", "worker-1", 1, 2});
  for (const char* wanted : {"HOME=/a", "CAPSTAN_COORDINATOR=127.0.0.1:5", "CAPSTAN_WORKER=worker-1", "CAPSTAN_INDEX=1",
                             "CAPSTAN_INDEXES=2", "CAPSTAN_WORKERS=mine", "PYTHONUNBUFFERED=1"}) {
    INFO(wanted);
    CHECK(Has(variables, wanted));
  }
  CHECK_FALSE(Has(variables, "CAPSTAN_WORKER=another"));
  const Words with_key = EnvironmentOf(program, {"127.0.0.1:5", "", "/run/keys/worker.key", "worker-1", 1, 2});
  CHECK(Has(with_key, "CAPSTAN_KEY_FILE=/run/keys/worker.key"));
  CHECK_FALSE(Has(variables, "CAPSTAN_KEY_FILE="));
}

TEST_CASE("a program that starts before its job is told where to ask for it, and of no other job",
          "[cli][own_program]") {
  OwnProgram program;
  program.variables = {"CAPSTAN_COORDINATOR=another", "CAPSTAN_BROKER=another"};
  const Words early = EnvironmentOf(program, {.broker = "/run/sockets/scripts", .worker = "worker-0"});
  CHECK(Has(early, "CAPSTAN_BROKER=/run/sockets/scripts"));
  CHECK(std::none_of(early.begin(), early.end(),
                     [](const std::string& one) { return one.starts_with("CAPSTAN_COORDINATOR"); }));
  const Words late = EnvironmentOf(program, {.coordinator = "127.0.0.1:5", .worker = "worker-0"});
  CHECK(Has(late, "CAPSTAN_COORDINATOR=127.0.0.1:5"));
  CHECK(
      std::none_of(late.begin(), late.end(), [](const std::string& one) { return one.starts_with("CAPSTAN_BROKER"); }));
}

TEST_CASE("Python finds the package of this capstan, and nothing else that lies there", "[cli][own_program]") {
  const TempFolder scratch;
  const std::string packages = scratch.path("lib/python3/dist-packages");
  for (const char* name : {"capstan", "another"}) {
    std::filesystem::create_directories(packages + "/" + name);
    std::ofstream(packages + "/" + name + "/__init__.py").flush();
  }
  std::filesystem::create_directory(scratch.path("bin"));
  const std::string folder = scratch.path("run/python");
  OwnProgram program;
  SECTION("where there is no other") {
    program.variables = {"PYTHONPATH=/mine"};
    REQUIRE(AddPythonPackage(scratch.path("bin"), scratch.path("run"), &program).ok());
    CHECK(Has(program.variables, "PYTHONPATH=/mine:" + folder));
    CHECK(std::filesystem::exists(folder + "/capstan/__init__.py"));
    CHECK_FALSE(std::filesystem::exists(folder + "/another"));
    REQUIRE(AddPythonPackage(scratch.path("bin"), scratch.path("run"), &program).ok());  // for a resumed run
  }
  SECTION("where PYTHONPATH leads to one") {
    program.variables = {"PYTHONPATH=/mine:" + packages};
    REQUIRE(AddPythonPackage(scratch.path("bin"), scratch.path("run"), &program).ok());
    CHECK(program.variables == Words{"PYTHONPATH=/mine:" + packages});
  }
  SECTION("where none is installed") {
    std::filesystem::remove_all(packages + "/capstan");
    REQUIRE(AddPythonPackage(scratch.path("bin"), scratch.path("run"), &program).ok());
    CHECK(program.variables.empty());
  }
}

}  // namespace
}  // namespace capstan::cli
