// StepTerms: what a step's commit says about the weights, in the mode where workers update them (allreduce).
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::session {

struct StepTerms {
  Version version;  // the version that the round computes with
  // How the version was made: the previous step's outcome and its generation. With kSkip it equals the version before.
  StepAction action = StepAction::kApply;
  Generation made_in;
  bool on_shards = true;  // the shards have this version
  // The learning rate of the step that starts from this version.
  float learning_rate = 0.0F;
  bool upload_next = false;  // workers must upload the version that this step makes to the shards
};

}  // namespace capstan::session
