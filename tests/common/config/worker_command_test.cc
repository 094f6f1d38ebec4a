// Tests worker.command, the program that launch starts as the workers of a job.
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

JobConfig Parse(const std::string& text) {
  const Result<JobConfig> config = ParseJobConfig(text, "job.toml");
  INFO(config.status().message());
  REQUIRE(config.ok());
  return *config;
}

std::string Refusal(const std::string& text, const std::string& override) {
  const Status status = ParseJobConfig(text, "job.toml", {override}).status();
  CHECK(status.code() == Code::kInvalid);
  return status.message();
}

TEST_CASE("a job of programs may say which program launch starts, and moves no bit by it", "[config]") {
  const std::string own = "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"client\"\n";
  const std::string built_in =
      "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n";
  const JobConfig without = Parse(own);
  CHECK(without.worker.command.empty());
  const JobConfig with = Parse(own + "[worker]\ncommand = [\"python3\", \"my train.py\", \"--epochs=3\", \"\"]\n");
  CHECK(with.worker.command == std::vector<std::string>{"python3", "my train.py", "--epochs=3", ""});
  CHECK(Parse(PrintJobConfig(with)) == with);
  CHECK(HashJobConfig(with) == HashJobConfig(without));
  CHECK(DescribeDifference(with, without).empty());
  CHECK_THAT(Refusal(own, "worker.command=train.py"), Contains("worker.command is train.py; wanted a list of texts"));
  CHECK_THAT(Refusal(own, "worker.command=[\"\", \"train.py\"]"), Contains("the first text of command is empty"));
  CHECK_THAT(Refusal(own, "worker.command=[\"sh\", \"a\\u0000b\"]"), Contains("has a zero byte"));
  CHECK_THAT(Refusal(built_in, "worker.command=[\"sh\"]"),
             Contains("\"command\" in [worker] goes with [model] kind = \"client\" only"));
}

}  // namespace
}  // namespace capstan
