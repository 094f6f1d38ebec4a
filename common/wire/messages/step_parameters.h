// StepParameters: what the coordinator decides once for a step; StepAction: what becomes of it.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

namespace capstan {

// All that step k needs before its first block is updated. Decided once, by the coordinator.
struct StepParameters {
  std::uint64_t updates = 0;  // updates applied before this step; the optimizer's t is updates + 1
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint32_t good_steps = 0;  // steps since the loss scale last changed
  bool snapshot = false;         // the version that was just published is to be kept on disk
  bool stop = false;             // there is no step after the version that was just published
  // Opaque: what the program gave with the newest step that it gave one with; kept, and handed to workers, with the
  // version. Empty: none was given.
  std::string program_state;
  // allreduce: the version that this step makes is to be given to the shards, as part of the step.
  bool keep = false;
  // Whether the shards have the blocks of the version that this step begins with; false in allreduce only.
  bool held = true;
  bool operator==(const StepParameters&) const = default;
};

enum class StepAction : std::uint8_t { kApply = 0, kSkip = 1 };

}  // namespace capstan
