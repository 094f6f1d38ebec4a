// Published, Weights: a shard's answers to a Pull.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// Says that the version exists. If the action is kApply, the speculative weights of `attempt` are those of the version.
// The worker must discard all other speculative weights.
struct Published {
  Generation generation;
  Incarnation incarnation;
  Version version;
  std::uint32_t attempt = 0;
  StepAction action = StepAction::kApply;  // kSkip: the version has the previous version's blocks
  bool stop = false;                       // this and the fields up to `program_state` are as in Weights
  float loss_scale = 1.0F;
  std::uint64_t updates = 0;
  std::string program_state;  // only from the shard that has block 0
  // allreduce: settings of the step that begins with this version.
  float learning_rate = 0.0F;
  bool upload_next = false, on_shards = true;
  Generation made_in;  // the generation that committed the previous step; 0: this timeline has no committed step
  double gradient_norm = 0.0;  // as in Weights
};

// The payload is one array of the block: its weights, one of the optimizer's states, or its mean gradient.
struct Weights {
  Generation generation;
  Incarnation incarnation;
  Version version;  // sync: the version of all blocks; async: this block's
  Version asked;    // the version that the pull asked for
  std::uint32_t attempt = 0;
  bool speculative = false;  // speculative: must be discarded unless a later Published confirms `attempt`
  BlockIndex block = 0;
  bool stop = false;  // this is the job's last version
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  std::uint32_t array = 0;
  Encoding encoding = Encoding::kFp32;
  std::uint64_t updates = 0;   // updates applied to the version (sync) or to this block (async)
  std::string program_state;   // the version's program state; only with the weights of block 0
  double gradient_norm = 0.0;  // StepParameters::gradient_norm of the version; speculative weights: 0
  bool skipped = false;        // external: the step that made the version was skipped, so this gradient does not count
};

}  // namespace capstan
