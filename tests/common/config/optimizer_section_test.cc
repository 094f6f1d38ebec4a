#include "common/config/job/optimizer_section.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/common/config/smallest_job.h"

using namespace capstan;
using capstan::testing::kSmallestJob;
using capstan::testing::ParseJob;
using Catch::Matchers::Contains;

TEST_CASE("weight decay spares the tensors whose names match", "[config]") {
  OptimizerSection optimizer;
  CHECK(DecayApplies(optimizer, "h.0.attn.bias"));
  optimizer.no_decay = {"*.bias", "ln*"};
  CHECK_FALSE(DecayApplies(optimizer, "h.0.attn.bias"));
  CHECK_FALSE(DecayApplies(optimizer, "ln_f.weight"));
  CHECK(DecayApplies(optimizer, "h.0.attn.weight"));
}

TEST_CASE("the kinds that PyTorch has begin with PyTorch's defaults", "[config]") {
  const auto of = [](const char* kind) {
    return ParseJob(kSmallestJob, {std::string("optimizer.kind=") + kind}).optimizer;
  };
  CHECK(of("rmsprop").lr == 1e-2);
  CHECK(of("rmsprop").momentum == 0.0);
  CHECK(of("rmsprop").alpha == 0.99);
  CHECK(of("rmsprop").eps == 1e-8);
  CHECK(of("adadelta").lr == 1.0);
  CHECK(of("adadelta").alpha == 0.9);
  CHECK(of("adadelta").eps == 1e-6);
  CHECK(of("adamax").lr == 2e-3);
  CHECK(of("nadam").lr == 2e-3);
  CHECK(of("nadam").momentum_decay == 4e-3);
  CHECK(of("radam").lr == 1e-3);
  CHECK(of("lion").lr == 1e-4);  // the paper's
  CHECK(of("lion").beta2 == 0.99);
  CHECK(of("momentum").momentum == 0.9);
  for (const char* kind : {"rmsprop", "adadelta", "adamax", "nadam", "radam", "lion"}) {
    CHECK(of(kind).weight_decay == 0.0);
    CHECK_FALSE(of(kind).maximize);
  }
}

TEST_CASE("an option of one kind of optimizer is refused with the others", "[config]") {
  const std::pair<const char*, std::vector<const char*>> options[] = {
      {"dampening=0.1", {"momentum"}},
      {"alpha=0.9", {"rmsprop"}},
      {"centered=true", {"rmsprop"}},
      {"rho=0.8", {"adadelta"}},
      {"amsgrad=true", {"adam", "adamw"}},
      {"lr_decay=0.1", {"adagrad"}},
      {"initial_accumulator_value=0.1", {"adagrad"}},
      {"momentum_decay=0.1", {"nadam"}},
      {"decoupled_weight_decay=true", {"nadam", "radam"}},
      {"maximize=true",
       {"sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "adadelta", "adamax", "nadam", "radam", "lion",
        "lars", "lamb"}}};
  for (const auto& [option, owners] : options) {
    for (const char* kind : options[std::size(options) - 1].second) {
      const std::vector<std::string> overrides = {std::string("optimizer.kind=") + kind,
                                                  std::string("optimizer.") + option};
      CAPTURE(kind, option);
      if (std::find(owners.begin(), owners.end(), std::string_view(kind)) != owners.end()) {
        const JobConfig config = ParseJob(kSmallestJob, overrides);
        CHECK(ParseJob(PrintJobConfig(config)).optimizer == config.optimizer);
      } else {
        CHECK(ParseJobConfig(kSmallestJob, "job.toml", overrides).status().code() == Code::kInvalid);
      }
    }
  }
  const auto both = ParseJobConfig(kSmallestJob, "job.toml",
                                   {"optimizer.kind=momentum", "optimizer.nesterov=true", "optimizer.dampening=0.1"});
  CHECK_THAT(both.status().message(), Contains("dampening = 0"));
}
