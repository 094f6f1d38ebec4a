// StepTerms: mode allreduce: what a worker must know of a version in order to compute the step that starts from it.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::session {

struct StepTerms {
  Version version;  // the version that the round computes with
  // How the previous step, which made the version, ended, and in which generation. After kSkip the version equals the
  // one before.
  StepAction action = StepAction::kApply;
  Generation made_in;
  bool on_shards = true;  // the shards have this version
  // The learning rate of the step that starts from the version.
  float learning_rate = 0.0F;
  bool upload_next = false;  // workers must upload the version that this step makes to the shards
};

}  // namespace capstan::session
