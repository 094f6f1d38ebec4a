#include "cli/launch/script_facts.h"

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;

ScriptOptions Options() {
  ScriptOptions options;
  options.script = "work/train.py";
  options.command = {"python3", "work/train.py", "--lr", "0.1"};
  return options;
}

ScriptFacts Facts() { return {"adam", 64, 1500, false}; }

JobConfig JobOf(const ScriptOptions& options, const ScriptFacts& facts = Facts()) {
  Result<JobConfig> job = ScriptJob(options, facts);
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *job;
}

std::string Refusal(const ScriptOptions& options, const ScriptFacts& facts = Facts()) {
  return ScriptJob(options, facts).status().message();
}

TEST_CASE("a job has the script's optimizer and batch, and the command line's processes", "[cli][script_facts]") {
  ScriptOptions options = Options();
  options.servers = 2;
  options.workers = 4;
  options.epochs = 3;
  const JobConfig job = JobOf(options);
  CHECK(job.job.name == "train");
  CHECK(job.job.global_batch == 64);
  CHECK(job.job.slots == 4);
  CHECK(job.job.steps == 72);  // 3 passes of 24 steps
  CHECK(job.model.kind == ModelKind::kClient);
  CHECK(job.optimizer.kind == OptimizerKind::kAdam);
  CHECK(job.cluster.servers == 2);
  CHECK(job.cluster.workers == 4);
  CHECK(job.worker.command == options.command);
}

TEST_CASE("the settings of a command line come before the script's facts", "[cli][script_facts]") {
  ScriptOptions options = Options();
  options.epochs = 2;
  options.slots = 3;
  options.overrides = {"job.global_batch=500", "job.name=mine", "worker.command=[\"sh\"]"};
  const JobConfig job = JobOf(options);
  CHECK(job.job.global_batch == 500);
  CHECK(job.job.steps == 6);
  CHECK(job.job.slots == 3);
  CHECK(job.job.name == "mine");
  CHECK(job.worker.command == std::vector<std::string>{"sh"});
  options.overrides = {"job.steps=5"};
  CHECK(JobOf(options).job.steps == 5);
}

TEST_CASE("a job keeps the arrays of the script's optimizer", "[cli][script_facts]") {
  const Result<ScriptFacts> adam = ParseScriptFacts(R"({"optimizer": "adam", "global_batch": 8, "amsgrad": true})");
  REQUIRE(adam.ok());
  CHECK(JobOf(Options(), *adam).optimizer.amsgrad);
  const Result<ScriptFacts> rmsprop =
      ParseScriptFacts(R"({"optimizer": "rmsprop", "global_batch": 8, "centered": true, "momentum": 0.25})");
  REQUIRE(rmsprop.ok());
  const JobConfig job = JobOf(Options(), *rmsprop);
  CHECK(job.optimizer.centered);
  CHECK(job.optimizer.momentum == 0.25);
  ScriptFacts wrong = *rmsprop;
  wrong.momentum = 1.5;
  CHECK_THAT(Refusal(Options(), wrong), Contains("optimizer.momentum"));
}

TEST_CASE("a job without a number of steps ends where the script's loop ends, and says so", "[cli][script_facts]") {
  const JobConfig job = JobOf(Options());
  CHECK(job.job.steps == kOpenEndedSteps);
  CHECK_THAT(DescribeScriptJob(Options(), Facts(), job).at(1), Contains("until the loop of train.py ends"));
  ScriptOptions options = Options();
  options.steps = 7;
  CHECK(DescribeScriptJob(options, Facts(), JobOf(options)).at(1) == "its steps: 7");
}

TEST_CASE("an epoch has the steps that the script's loader has", "[cli][script_facts]") {
  ScriptOptions options = Options();
  options.epochs = 1;
  CHECK(JobOf(options, {"adam", 64, 1500, true}).job.steps == 23);
  CHECK(JobOf(options, {"adam", 64, 64, true}).job.steps == 1);
  CHECK(JobOf(options, {"adam", 64, 65, false}).job.steps == 2);
  CHECK_THAT(Refusal(options, {"adam", 64, 63, true}), Contains("63 samples, fewer than a global batch of 64"));
  options.epochs = std::uint64_t{1} << 60;
  CHECK_THAT(Refusal(options), Contains("are more steps than a job can have"));
}

TEST_CASE("without a loader the command line says the batch, and steps in place of epochs", "[cli][script_facts]") {
  const ScriptFacts facts{"sgd", 0, 0, false};
  ScriptOptions options = Options();
  CHECK_THAT(Refusal(options, facts),
             Contains("train.py gave prepare() no loader") && Contains("--set job.global_batch=N"));
  options.overrides = {"job.global_batch=12"};
  CHECK(JobOf(options, facts).job.global_batch == 12);
  options.epochs = 2;
  CHECK_THAT(Refusal(options, facts), Contains("write --steps N"));
}

TEST_CASE("what the job file refuses, the command line refuses before the script runs", "[cli][script_facts]") {
  ScriptOptions options = Options();
  CHECK(DraftOfScriptJob(options).ok());
  options.overrides = {"job.stpes=3"};
  CHECK_THAT(DraftOfScriptJob(options).status().message(), Contains("did you mean \"steps\"?"));
  options.overrides = {"model.kind=mlp", "data.kind=synthetic"};
  CHECK_THAT(DraftOfScriptJob(options).status().message(), Contains("capstan run trains the model of a script"));
  options.overrides = {};
  options.epochs = 0;
  CHECK_THAT(DraftOfScriptJob(options).status().message(), Contains("--epochs 0"));
  options.epochs.reset();
  options.workers = 65;  // of as many slots
  CHECK_THAT(Refusal(options), Contains("less than the 65 slots"));
}

TEST_CASE("facts are read from a script's line, and anything else is refused", "[cli][script_facts]") {
  const Result<ScriptFacts> facts =
      ParseScriptFacts(R"({"optimizer": "adamw", "global_batch": 16, "samples": 100, "drop_last": true})");
  REQUIRE(facts.ok());
  CHECK(facts->optimizer == "adamw");
  CHECK(facts->global_batch == 16);
  CHECK(facts->samples == 100);
  CHECK(facts->drops_last);
  CHECK(ParseScriptFacts(R"({"optimizer": "sgd"})")->global_batch == 0);
  for (const char* bad : {"", "[]", "{}", "{\"optimizer\": 3}", "{\"optimizer\": \"a\\\"\\n[job]\"}", "\xff\x1b[31m"}) {
    INFO(bad);
    CHECK(ParseScriptFacts(bad).status().code() == Code::kInvalid);
  }
  CHECK_THAT(ParseScriptFacts(R"({"optimizer": "sgd", "global_batch": 99999999999})").status().message(),
             Contains("batches of 99999999999"));
}

TEST_CASE("a job's name is made of the script's", "[cli][script_facts]") {
  CHECK(NameOfScript("a/b/my train.v2.py") == "my-train.v2");
  CHECK(NameOfScript("--x.py") == "x");
  CHECK(NameOfScript("...py") == "script");
  CHECK(NameOfScript(std::string(200, 'a') + ".py").size() == 48);
}

}  // namespace
}  // namespace capstan::cli
