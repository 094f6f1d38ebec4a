// StepParameters: the coordinator's settings for a step; StepAction: whether the step is applied.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

namespace capstan {

// Everything that a step needs before its first block is updated. The coordinator decides it, once for each step.
struct StepParameters {
  std::uint64_t updates = 0;  // updates applied before this step; the optimizer's t is updates + 1
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint32_t good_steps = 0;  // steps since the loss scale last changed
  bool snapshot = false;         // take a snapshot of the version that was just published
  bool stop = false;             // the version that was just published is the last one
  // The training program's newest state, opaque. Snapshots keep it, and workers receive it with the
  // version. Empty: none.
  std::string program_state;
  // allreduce: the workers upload to the shards the version that this step makes.
  bool upload_next = false;
  // Whether the shards have the blocks of the version that this step begins with; false only in allreduce.
  bool on_shards = true;
  // Norm of the whole averaged gradient of the step that made this version, before clipping and without the loss scale.
  // Infinity: it was not finite. 0: version 0, or a mode without global steps.
  double gradient_norm = 0.0;
  bool operator==(const StepParameters&) const = default;
};

enum class StepAction : std::uint8_t { kApply = 0, kSkip = 1 };

}  // namespace capstan
