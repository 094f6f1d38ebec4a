// StepTerms: what a step's commit says of the weights, where workers make them.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::client {

struct StepTerms {
  Version version;  // that the round computes with
  // How it was made: by the step before, in this generation; kSkip: it is the version before.
  StepAction action = StepAction::kApply;
  Generation made_in;
  bool held = true;  // the shards have it
  // Of the step that begins with it.
  float learning_rate = 0.0F;
  bool keep = false;  // the version that the step makes is to be given to the shards
};

}  // namespace capstan::client
