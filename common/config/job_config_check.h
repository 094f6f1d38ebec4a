// FindProblem: checks of the job file that the type and range of a single key cannot express.
//
// Kind:   internal to common/config/job_config.cc; a pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/config/job/forward.h"

namespace capstan::job_config {

struct Problem {
  std::string_view section, key;  // the place that the message points to
  std::string message;
};

std::optional<Problem> FindProblem(const JobConfig& config);

}  // namespace capstan::job_config
