// The contents of the status page.
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_bench.h"

using namespace capstan;
using namespace capstan::server;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("a job that gets on is running, and its workers and shards are listed", "[server][status]") {
  CoordinatorBench bench;
  bench.config.job.name = "a \"job\"";
  bench.config.job.steps = 100;
  bench.Run();
  bench.DoStep(0);
  const std::string json = bench.coordinator->StatusJson(bench.now);
  CHECK_THAT(json, Contains(R"("job":"a \"job\"","state":"running")") && !Contains("waiting for"));
  CHECK_THAT(json, Contains(R"("step":1,"steps":100)") && Contains(R"("loss":2.0)"));
  CHECK_THAT(json, Contains(R"({"worker":"w0","state":)") && Contains(R"("slots":"0")"));
  CHECK_THAT(json, Contains(R"({"shard":"server 1","state":"alive","address":"shard-1"})"));
}

TEST_CASE("a job that waits says so in the words of its log", "[server][status]") {
  CoordinatorBench bench;
  bench.config.job.steps = 100;
  bench.config.limits.report = 5;
  bench.Run();
  CHECK_THAT(bench.coordinator->StatusJson(bench.now), Contains("\"state\":\"running\""));
  bench.Forget();
  bench.Pass(5s);
  const std::string line = bench.Notices();
  REQUIRE_THAT(line, Contains("waiting 5 s for server 0 at shard-0 (silent for 5 s)"));
  const std::string json = bench.coordinator->StatusJson(bench.now);
  CHECK_THAT(json, Contains("\"state\":\"waiting\",\"waiting\":\"waiting 5 s for server 0 at shard-0"));
  CHECK_THAT(json, Contains("giving up after 600 s") && Contains("\"state\":\"silent\""));
}

TEST_CASE("a job that gathers is gathering, then waits for whom it misses", "[server][status]") {
  CoordinatorBench bench;
  bench.Live();
  CHECK_THAT(bench.coordinator->StatusJson(bench.now), Contains("\"state\":\"gathering\""));
  bench.Pass(6s);
  CHECK_THAT(bench.coordinator->StatusJson(bench.now),
             Contains("\"state\":\"waiting\"") && Contains("server 0 (never seen)") && Contains("2 of 2 workers"));
}
