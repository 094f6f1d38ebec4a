#include "server/step_log.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace capstan::server {
namespace {

TEST_CASE("a step's line holds every field, and numbers that read back as they were", "[server][step_log]") {
  StepRecord record;
  record.generation = Generation{2};
  record.step = Step{7};
  record.loss = 0.1;
  record.learning_rate = 1e-3;
  record.gradient_norm = 2.5;
  record.samples = 32;
  record.seconds = 0.25;
  CHECK(StepLine(record) ==
        R"({"step": 7, "loss": 0.1, "lr": 0.001, "grad_norm": 2.5, "samples": 32, "seconds": 0.25, "action": "apply", )"
        R"("generation": 2})");
}

TEST_CASE("validation is there when it was measured, and a skipped step says so", "[server][step_log]") {
  StepRecord record;
  record.action = StepAction::kSkip;
  record.validation_loss = 1.5;
  record.validation_accuracy = 0.75;
  const std::string line = StepLine(record);
  CHECK(line.find(R"("action": "skip")") != std::string::npos);
  CHECK(line.find(R"("validation_loss": 1.5, "validation_accuracy": 0.75)") != std::string::npos);
}

TEST_CASE("what is no finite number is null, as JSON has no word for it", "[server][step_log]") {
  CHECK(JsonNumber(std::nan("")) == "null");
  CHECK(JsonNumber(-std::numeric_limits<double>::infinity()) == "null");
  CHECK(JsonNumber(-0.0) == "-0");
  CHECK(JsonNumber(1e300) == "1e+300");
}

}  // namespace
}  // namespace capstan::server
