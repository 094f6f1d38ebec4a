// The state of a job as JSON, which the status page shows.
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("a job that gets on is running, and its workers and shards are listed", "[server][status]") {
  CoordinatorHarness harness;
  harness.config.job.name = "a \"job\"";
  harness.config.job.steps = 100;
  harness.Run();
  harness.DoStep(0);
  const std::string json = harness.coordinator->StatusJson(harness.now);
  CHECK_THAT(json, Contains(R"("job":"a \"job\"","state":"running")") && !Contains("waiting for"));
  CHECK_THAT(json, Contains(R"("step":1,"steps":100)") && Contains(R"("loss":2.0)"));
  CHECK_THAT(json, Contains(R"({"worker":"w0","state":)") && Contains(R"("slots":"0")"));
  CHECK_THAT(json, Contains(R"({"shard":"server 1","state":"alive","address":"shard-1",)"));
}

TEST_CASE("a job that ends with its programs' loops says no number of steps, and no time left", "[server][status]") {
  CoordinatorHarness harness;
  harness.config.job.steps = kOpenEndedSteps;
  harness.Run();
  harness.DoStep(0);
  const std::string json = harness.coordinator->StatusJson(harness.now);
  CHECK_THAT(json, Contains(R"("step":1)") && !Contains(R"("steps")") && !Contains("seconds_left"));
}

TEST_CASE("a job that waits says so in the words of its log", "[server][status]") {
  CoordinatorHarness harness;
  harness.config.job.steps = 100;
  harness.config.limits.report = 5;
  harness.Run();
  CHECK_THAT(harness.coordinator->StatusJson(harness.now), Contains("\"state\":\"running\""));
  harness.Forget();
  harness.Pass(5s);
  const std::string line = harness.Notices();
  REQUIRE_THAT(line, Contains("waiting 5 s for server 0 at shard-0 (silent for 5 s)"));
  const std::string json = harness.coordinator->StatusJson(harness.now);
  CHECK_THAT(json, Contains("\"state\":\"waiting\",\"waiting\":\"waiting 5 s for server 0 at shard-0"));
  CHECK_THAT(json, Contains("giving up after 600 s") && Contains("\"state\":\"silent\""));
}

TEST_CASE("a job that gathers is gathering, then waits for whom it misses", "[server][status]") {
  CoordinatorHarness harness;
  harness.Live();
  CHECK_THAT(harness.coordinator->StatusJson(harness.now), Contains("\"state\":\"gathering\""));
  harness.Pass(6s);
  CHECK_THAT(harness.coordinator->StatusJson(harness.now),
             Contains("\"state\":\"waiting\"") && Contains("server 0 (never seen)") && Contains("2 of 2 workers"));
}
