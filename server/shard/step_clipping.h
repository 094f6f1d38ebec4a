// StepClipping: the limits for clipping that the EndSlots of one step bring from the training program.
//
// Kind:   owned by the Shard.
// Fails:  Check: kInvalid, a limit that is no number to clip to, or any limit outside mode sync. Compare: kInvalid,
//         limits that differ from the step's first ones; the message names both slots and all limits.
// Why:    one step is one update. Slots with different limits mean that workers disagree. Slots may end on different
//         shards, so the verdict compares the reports of all shards, too.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/config/job/mode.h"
#include "common/data/clipping.h"

namespace capstan {
struct EndSlot;
}  // namespace capstan

namespace capstan::server {

class StepClipping {
 public:
  static Status Check(const EndSlot& end, Mode mode);
  // Compares the limits that the EndSlot brings with the step's.
  Status Compare(const EndSlot& end) const;
  // Takes the limits of a slot's first EndSlot in the step. Requires that Check() and Compare() returned ok.
  void Take(const EndSlot& end);
  // The session that brought the step's limits; 0 if no slot has ended.
  SessionId session() const { return session_; }

 private:
  std::optional<Clipping> clipping_;  // the step's; none is given before the first slot ends
  SessionId session_;
  SlotIndex slot_ = 0;
};

}  // namespace capstan::server
