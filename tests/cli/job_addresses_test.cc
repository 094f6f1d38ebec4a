#include "cli/run/job_addresses.h"

#include <nlohmann/json.hpp>
#include <fstream>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using testing::TempFolder;

json FileOf(const TempFolder& folder) {
  std::ifstream in(folder.path("endpoints.json"));
  return json::parse(in);
}

server::Roster TwoServers() {
  return {{{0, "tcp://10.0.0.6:1", "10.0.0.6:91"},
           {1, "tcp://10.0.0.6:2", "10.0.0.6:91"},
           {2, "tcp://10.0.0.7:1", "10.0.0.7:91"}},
          {{"w0", "10.0.0.8:91"}, {"server-0", "127.0.0.1:92"}, {"own", ""}}};
}

TEST_CASE("endpoints.json has every process, a server with all its shards once", "[cli][addresses]") {
  const TempFolder folder;
  JobAddresses addresses("digits", 2);
  REQUIRE(addresses.SetMembers(TwoServers()).ok());  // before it has begun: remembered
  REQUIRE(addresses.Begin(folder.path(), "10.0.0.5:29600", "10.0.0.5:90").ok());
  const json file = FileOf(folder);
  CHECK(file["job"] == "digits");
  CHECK(file["coordinator"] == "10.0.0.5:29600");
  CHECK(file["shards"] == json({"10.0.0.6:1", "10.0.0.6:2", "10.0.0.7:1"}));
  CHECK(file["metrics"] == json({{"coordinator", "10.0.0.5:90"},
                                 {"server-0", "10.0.0.6:91"},
                                 {"server-1", "10.0.0.7:91"},
                                 {"w0", "10.0.0.8:91"}}));
  REQUIRE(file["processes"].size() == 6);
  CHECK(file["processes"][1] == json({{"role", "server"},
                                      {"name", "server-0"},
                                      {"addresses", {"10.0.0.6:1", "10.0.0.6:2"}},
                                      {"metrics", "http://10.0.0.6:91/metrics"}}));
  CHECK(file["processes"][5] == json({{"role", "worker"}, {"name", "own"}}));
  CHECK(LastCoordinator(folder.path()) == "10.0.0.5:29600");

  REQUIRE(addresses.SetMembers({}).ok());
  CHECK(FileOf(folder)["processes"].size() == 1);
}

TEST_CASE("Prometheus discovers each process that others reach, with its job, role and name", "[cli][addresses]") {
  const TempFolder folder;
  JobAddresses addresses("digits", 2);
  REQUIRE(addresses.Begin(folder.path(), "10.0.0.5:29600", "10.0.0.5:90").ok());
  REQUIRE(addresses.SetMembers(TwoServers()).ok());
  const json groups = json::parse(addresses.HttpSd());
  REQUIRE(groups.size() == 4);  // not the worker without metrics, nor the one reachable only from its own machine
  CHECK(groups[0] == json({{"targets", json::array({"10.0.0.5:90"})},
                           {"labels", {{"job", "digits"}, {"role", "coordinator"}, {"name", "coordinator"}}}}));
  CHECK(groups[3] == json({{"targets", json::array({"10.0.0.8:91"})},
                           {"labels", {{"job", "digits"}, {"role", "worker"}, {"name", "w0"}}}}));
}

TEST_CASE("on one machine its loopback addresses are discovered", "[cli][addresses]") {
  const TempFolder folder;
  JobAddresses addresses("digits", 1);
  REQUIRE(addresses.Begin(folder.path(), "127.0.0.1:29600", "127.0.0.1:90").ok());
  REQUIRE(addresses.SetMembers({{}, {{"w\"0\n", "127.0.0.1:91"}}}).ok());
  const json groups = json::parse(addresses.HttpSd());
  REQUIRE(groups.size() == 2);
  CHECK(groups[1]["labels"]["name"] == "w\"0\n");
}

TEST_CASE("a file that says no address of a coordinator has none", "[cli][addresses]") {
  const TempFolder folder;
  CHECK(LastCoordinator(folder.path()) == std::nullopt);
  for (const char* text : {"", "{", "[]", "{}", R"({"coordinator": 5})", R"({"coordinator": "nowhere"})"}) {
    CAPTURE(text);
    std::ofstream(folder.path("endpoints.json")) << text;
    CHECK(LastCoordinator(folder.path()) == std::nullopt);
  }
  JobAddresses addresses("digits", 1);
  CHECK(addresses.Begin(folder.path("nothing"), "127.0.0.1:1", "127.0.0.1:2").code() == Code::kUnreachable);
}

TEST_CASE("addresses are read as they were written, and none where there are none", "[cli]") {
  const TempFolder scratch;
  CHECK(ReadEndpoints(scratch.path()).coordinator.empty());
  JobAddresses addresses("job", 1);
  REQUIRE(addresses.Begin(scratch.path(), "127.0.0.1:5", "127.0.0.1:7").ok());
  CHECK(ReadEndpoints(scratch.path()).coordinator == "127.0.0.1:5");
  CHECK(ReadEndpoints(scratch.path()).metrics.at("coordinator") == "127.0.0.1:7");
  std::ofstream(scratch.path("endpoints.json")) << "[1, 2";
  CHECK(ReadEndpoints(scratch.path()).coordinator.empty());
  std::filesystem::remove(scratch.path("endpoints.json"));
  std::filesystem::create_directory(scratch.path("endpoints.json"));
  CHECK(ReadEndpoints(scratch.path()).coordinator.empty());
}

TEST_CASE("a process that speaks https has such a URL, and Prometheus is told so", "[cli][addresses]") {
  const TempFolder folder;
  JobAddresses addresses("digits", 1);
  REQUIRE(addresses.Begin(folder.path(), "10.0.0.5:29600", "https://10.0.0.5:90").ok());
  REQUIRE(addresses.SetMembers({{{0, "tcp://10.0.0.6:1", "10.0.0.6:91"}}, {{"w0", "https://127.0.0.1:92"}}}).ok());
  const json file = FileOf(folder);
  CHECK(file["metrics"] == json({{"coordinator", "10.0.0.5:90"}, {"server-0", "10.0.0.6:91"}, {"w0", "127.0.0.1:92"}}));
  CHECK(file["processes"][0]["metrics"] == "https://10.0.0.5:90/metrics");
  CHECK(file["processes"][1]["metrics"] == "http://10.0.0.6:91/metrics");
  CHECK(file["processes"][2]["metrics"] == "https://127.0.0.1:92/metrics");
  const json groups = json::parse(addresses.HttpSd());
  REQUIRE(groups.size() == 2);  // not the worker, which only its own machine reaches
  CHECK(groups[0]["targets"] == json::array({"10.0.0.5:90"}));
  CHECK(groups[0]["labels"]["__scheme__"] == "https");
  CHECK(groups[1]["targets"] == json::array({"10.0.0.6:91"}));
  CHECK_FALSE(groups[1]["labels"].contains("__scheme__"));
}

}  // namespace
}  // namespace capstan::cli
