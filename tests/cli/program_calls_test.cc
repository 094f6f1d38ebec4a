#include "cli/launch/program_calls.h"

#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using testing::TempFolder;

// Returns the argument after `option`; empty: there is none.
std::string ArgumentOf(const ProgramCall& call, const std::string& option) {
  const auto found = std::find(call.arguments.begin(), call.arguments.end(), option);
  return found == call.arguments.end() || found + 1 == call.arguments.end() ? "" : *(found + 1);
}

TEST_CASE("each server and worker of a job gets ports of its own, counted up from the job file's", "[cli][launch]") {
  const TempFolder scratch;
  EditableJobConfig config;
  config.cluster.servers = 2;
  config.cluster.workers = 2;
  config.cluster.shards_per_server = 3;
  config.cluster.listen = "127.0.0.1:7000";
  config.metrics.listen = "127.0.0.1:8000";
  const auto directory = RunDirectory::Create(scratch.path("run"), "job");
  REQUIRE(directory.ok());
  const ProgramCalls calls(config, *directory, "/bin", "trace.json", Plaintext::kRefused, "");
  const auto servers = calls.Servers("127.0.0.1:6000");
  REQUIRE(servers.size() == 2);
  CHECK(servers[1].name == "server-1");
  CHECK(servers[1].path == "/bin/capstan-server");
  CHECK(ArgumentOf(servers[1], "--index") == "1");
  CHECK(std::count(servers[1].arguments.begin(), servers[1].arguments.end(), "cluster.listen=127.0.0.1:7003") == 1);
  CHECK(ArgumentOf(servers[1], "--metrics-listen") == "127.0.0.1:8002");
  CHECK(!ArgumentOf(servers[1], "--trace").empty());
  const auto workers = calls.Workers("127.0.0.1:6000");
  REQUIRE(workers.size() == 2);
  CHECK(workers[1].path == "/bin/capstan-worker");
  CHECK(ArgumentOf(workers[1], "--coordinator") == "127.0.0.1:6000");
  CHECK(ArgumentOf(workers[1], "--metrics-listen") == "127.0.0.1:8004");
  CHECK(ArgumentOf(workers[1], "--metrics-token-file").empty());
  CHECK(ArgumentOf(workers[1], "--metrics-certificate").empty());
}

TEST_CASE("a worker, which has no job file when it starts, is told how its metrics are protected", "[cli][launch]") {
  const TempFolder scratch;
  EditableJobConfig config;
  config.metrics = {.token_file = "/t", .certificate = "/c", .key = "/k", .hosts = {"a", "b"}};
  const auto directory = RunDirectory::Create(scratch.path("run"), "job");
  REQUIRE(directory.ok());
  const ProgramCall worker =
      ProgramCalls(config, *directory, "/bin", "", Plaintext::kRefused, "").Workers("127.0.0.1:6000").front();
  CHECK(ArgumentOf(worker, "--metrics-token-file") == "/t");
  CHECK(ArgumentOf(worker, "--metrics-certificate") == "/c");
  CHECK(ArgumentOf(worker, "--metrics-key") == "/k");
  CHECK(std::count(worker.arguments.begin(), worker.arguments.end(), "--metrics-host") == 2);
  CHECK(worker.arguments.back() == "b");
}

TEST_CASE("each process of a job with keys has the key file of its role", "[cli][launch]") {
  const TempFolder scratch;
  const EditableJobConfig config;
  const auto directory = RunDirectory::Create(scratch.path("run"), "job");
  REQUIRE(directory.ok());
  const ProgramCalls calls(config, *directory, "/bin", "", Plaintext::kRefused, "/keys");
  CHECK(ArgumentOf(calls.Coordinator("127.0.0.1:0", RunBegin::kNew), "--key-file") == "/keys/coordinator.key");
  CHECK(ArgumentOf(calls.Servers("127.0.0.1:6000").front(), "--key-file") == "/keys/server.key");
  CHECK(ArgumentOf(calls.Workers("127.0.0.1:6000").front(), "--key-file") == "/keys/worker.key");
}

TEST_CASE("a coordinator is told how the run begins", "[cli][launch]") {
  const TempFolder scratch;
  EditableJobConfig config;
  config.metrics.listen = "127.0.0.1:8000";
  const auto directory = RunDirectory::Create(scratch.path("run"), "job");
  REQUIRE(directory.ok());
  const ProgramCalls calls(config, *directory, "/bin", "", Plaintext::kRefused, "");
  const auto last = [&](RunBegin begin) { return calls.Coordinator("127.0.0.1:6000", begin).arguments.back(); };
  CHECK(last(RunBegin::kNew) == "127.0.0.1:8000");
  CHECK(last(RunBegin::kResume) == "--resume");
  CHECK(last(RunBegin::kRollBack) == "--accept-rollback");
  CHECK(calls.Coordinator("127.0.0.1:6000", RunBegin::kNew).name == ProgramCalls::kCoordinator);
}

}  // namespace
}  // namespace capstan::cli
