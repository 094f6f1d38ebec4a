// kSmallestJob, ParseJob: the smallest job file there is, and its settings with some of them changed.
#pragma once

#include <string>
#include <vector>

#include "common/config/job_config.h"
#include "tests/catch.h"

namespace capstan::testing {

inline constexpr char kSmallestJob[] = R"([job]
steps = 10
global_batch = 8
[model]
kind = "mlp"
[data]
kind = "synthetic"
)";

inline JobConfig ParseJob(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Result<JobConfig> config = ParseJobConfig(text, "job.toml", overrides);
  INFO(config.status().message());
  REQUIRE(config.ok());
  return *config;
}

}  // namespace capstan::testing
