// Published, Weights: what a shard answers to a Pull.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/types.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan {

// What a pull of this version waited for. Tentative weights of this attempt are the version's own where the action is
// kApply; all others that came before are void.
struct Published {
  Generation generation;
  Incarnation incarnation;
  Version version;
  std::uint32_t attempt = 0;
  StepAction action = StepAction::kApply;  // kSkip: the version has the blocks of the one before
  bool stop = false;                       // this and the others as in Weights
  float loss_scale = 1.0F;
  std::uint64_t updates = 0;
  std::string program_state;  // from the shard that has block 0
  // allreduce: of the step that begins with this version.
  float learning_rate = 0.0F;
  bool keep = false, held = true;
  Generation made_in;  // the generation in which the step before was committed; 0: none was in this history
};

// Payload: an array of the block: its weights, or one of the optimizer's states.
struct Weights {
  Generation generation;
  Incarnation incarnation;
  Version version;  // sync: of all blocks; async: of this block
  Version asked;    // what the pull asked for
  std::uint32_t attempt = 0;
  bool tentative = false;  // prepared, and void unless Published says otherwise; what is the version's is there
  BlockIndex block = 0;
  bool stop = false;  // this is the last version
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  std::uint32_t array = 0;
  Encoding encoding = Encoding::kFp32;
  std::uint64_t updates = 0;  // sync: that the version has had; async: that this block has
  std::string program_state;  // of the version; only with the weights of block 0
};

}  // namespace capstan
