// Tests of where a job's processes listen, by transport.
#include "cli/run/job_transport.h"

#include <filesystem>

#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/security_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using testing::TempFolder;

TEST_CASE("a job without addresses has Unix sockets, the shards' next to the coordinator's", "[cli][transport]") {
  const TempFolder run;
  EditableJobConfig config;
  const auto launcher = CreateJobTransport(config);
  const Result<std::string> coordinator = launcher->FindCoordinator(run.path());
  REQUIRE(coordinator.ok());
  const std::string folder = fs::canonical(run.path("sockets"));
  CHECK(*coordinator == LocalAddress(folder, "coordinator"));

  config.cluster.coordinator = *coordinator;  // as a server is told
  config.cluster.servers = 2;
  config.cluster.shards_per_server = 2;
  const auto server = CreateJobTransport(config);
  CHECK(server->FindShards(1).value() ==
        std::vector<std::string>{LocalAddress(folder, "shard-2"), LocalAddress(folder, "shard-3")});
  server->Remove();
  CHECK(fs::exists(folder));  // who made it removes it
  launcher->Remove();
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("a socket of the user's choice is taken as it is", "[cli][transport]") {
  const TempFolder run;
  EditableJobConfig config;
  config.cluster.coordinator = "ipc:///run/job/head";
  const auto transport = CreateJobTransport(config);
  CHECK(transport->FindCoordinator(run.path()).value() == "ipc:///run/job/head");
  CHECK(transport->FindShards(0).value() == std::vector<std::string>{"ipc:///run/job/shard-0"});
  transport->Remove();
  CHECK_FALSE(fs::exists(run.path("sockets")));
}

TEST_CASE("a job with an address for TCP, or the word plaintext, has TCP", "[cli][transport]") {
  const TempFolder run;
  EditableJobConfig config;
  config.security.transport = TransportWord::kPlaintext;
  CHECK(CreateJobTransport(config)->FindCoordinator(run.path()).value() == "127.0.0.1:0");
  config.security.transport = TransportWord::kAuto;
  config.cluster.coordinator = "127.0.0.1:29600";
  config.cluster.listen = "auto:7000";
  config.cluster.shards_per_server = 2;
  const auto transport = CreateJobTransport(config);
  CHECK(transport->FindCoordinator(run.path()).value() == "127.0.0.1:29600");
  CHECK(transport->FindShards(0).value() == std::vector<std::string>{"127.0.0.1:7000", "127.0.0.1:7001"});
  CHECK_FALSE(fs::exists(run.path("sockets")));
}

TEST_CASE("a server whose way to the coordinator is not known says what to check", "[cli][transport]") {
  EditableJobConfig config;
  config.cluster.coordinator = "no-such-host..invalid:29600";
  CHECK_THAT(CreateJobTransport(config)->FindShards(0).status().message(), Contains("check cluster.coordinator"));
}

}  // namespace
}  // namespace capstan::cli
