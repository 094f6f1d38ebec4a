// Tests of where a job's processes listen, by transport.
#include "cli/run/job_transport.h"

#include <filesystem>

#include "cli/run/job_keys.h"
#include "cli/run/process_keys.h"
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
  const auto launcher = CreateJobTransport(config, Plaintext::kRefused, "", {});
  const Result<std::string> coordinator = launcher->FindCoordinator(run.path());
  REQUIRE(coordinator.ok());
  const std::string folder = fs::canonical(run.path("sockets"));
  CHECK(*coordinator == LocalAddress(folder, "coordinator"));

  config.cluster.coordinator = *coordinator;  // as a server is told
  config.cluster.servers = 2;
  config.cluster.shards_per_server = 2;
  const auto server = CreateJobTransport(config, Plaintext::kRefused, "", {});
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
  const auto transport = CreateJobTransport(config, Plaintext::kRefused, "", {});
  CHECK(transport->FindCoordinator(run.path()).value() == "ipc:///run/job/head");
  CHECK(transport->FindShards(0).value() == std::vector<std::string>{"ipc:///run/job/shard-0"});
  transport->Remove();
  CHECK_FALSE(fs::exists(run.path("sockets")));
}

TEST_CASE("a job with an address for TCP, or the word plaintext, has TCP", "[cli][transport]") {
  const TempFolder run;
  EditableJobConfig config;
  config.security.transport = TransportWord::kPlaintext;
  CHECK(CreateJobTransport(config, Plaintext::kRefused, "", {})->FindCoordinator(run.path()).value() == "127.0.0.1:0");
  config.security.transport = TransportWord::kAuto;
  config.cluster.coordinator = "127.0.0.1:29600";
  config.cluster.listen = "auto:7000";
  config.cluster.shards_per_server = 2;
  const auto transport = CreateJobTransport(config, Plaintext::kRefused, "", {});
  CHECK(transport->FindCoordinator(run.path()).value() == "127.0.0.1:29600");
  CHECK(transport->FindShards(0).value() == std::vector<std::string>{"127.0.0.1:7000", "127.0.0.1:7001"});
  CHECK_FALSE(fs::exists(run.path("sockets")));
}

TEST_CASE("a server whose way to the coordinator is not known says what to check", "[cli][transport]") {
  EditableJobConfig config;
  config.cluster.coordinator = "no-such-host..invalid:29600";
  CHECK_THAT(CreateJobTransport(config, Plaintext::kRefused, "", {})->FindShards(0).status().message(),
             Contains("check cluster.coordinator"));
}

TEST_CASE("a job file with an address that other machines reach does not allow it", "[cli][transport]") {
  const TempFolder run;
  EditableJobConfig config;
  CHECK(CreateJobTransport(config, Plaintext::kRefused, "", {})->Check().ok());
  config.security.transport = TransportWord::kPlaintext;
  CHECK(CreateJobTransport(config, Plaintext::kRefused, "", {})->Check().ok());
  config.cluster.listen = "0.0.0.0:7000";
  CHECK_THAT(CreateJobTransport(config, Plaintext::kRefused, "", {})->Check().message(),
             Contains("cluster.listen is 0.0.0.0"));
  config.cluster.coordinator = "192.0.2.5:29600";
  CHECK_THAT(CreateJobTransport(config, Plaintext::kRefused, "", {})->Check().message(),
             Contains("cluster.coordinator is 192"));
  CHECK_THAT(CreateJobTransport(config, Plaintext::kRefused, "", {})->FindShards(0).status().message(),
             Contains("the address of the server's shards is 0.0.0.0:7000"));
  CHECK(CreateJobTransport(config, Plaintext::kAllowed, "", {})->Check().ok());
  CHECK(CreateJobTransport(config, Plaintext::kAllowed, "", {})->FindShards(0).ok());
}

TEST_CASE("a process of a job with keys needs its own and an allow list, wherever it listens", "[cli][transport]") {
  const TempFolder folder;
  EditableJobConfig config;
  config.security.transport = TransportWord::kCurve;
  const auto without = CreateJobTransport(config, Plaintext::kRefused, "", {});
  CHECK(without->needs_keys());
  CHECK(without->CheckLaunch().ok());
  CHECK_THAT(without->Check().message(), Contains("--key-file or CAPSTAN_KEY_FILE") && Contains("capstan keygen"));

  const std::string coordinator = MakeJobKeys(folder.path("keys")).value();
  CHECK(coordinator.size() == kKeyDigits);
  config.cluster.coordinator = "10.0.0.5:29600#" + coordinator;
  config.cluster.listen = "0.0.0.0:7000";
  config.cluster.advertise = "node-1";
  const auto transport =
      CreateJobTransport(config, Plaintext::kRefused, KeyFileIn(folder.path("keys"), Role::kServer), {});
  CHECK(transport->Check().ok());
  CHECK(transport->FindCoordinator("").value() == config.cluster.coordinator);
  CHECK(transport->FindShards(0).value().front() == "0.0.0.0:7000");
  CHECK(transport->Options().keys != nullptr);
  CHECK(transport->Options().admission != nullptr);
  CHECK_THAT(MakeJobKeys(folder.path("keys")).status().message(), Contains("would be lost"));
  RemoveJobKeys(folder.path("keys"));
  CHECK_FALSE(fs::exists(folder.path("keys")));
}

}  // namespace
}  // namespace capstan::cli
