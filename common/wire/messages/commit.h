// Commit: the coordinator's decision on a step, for all shards.
//
// Kind:   values.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

struct Commit {
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  StepAction action = StepAction::kApply;
  StepParameters next;  // parameters of step + 1
  bool operator==(const Commit&) const = default;
};

}  // namespace capstan
