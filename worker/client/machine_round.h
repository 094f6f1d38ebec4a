// MachineRound: what a worker offers to the other workers of its machine in one round, to be added up with theirs.
//
// Kind:   a value.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "worker/client/slot_sums.h"

namespace capstan::client {

struct MachineRound {
  std::uint64_t round = 0;  // the session's number of the round
  Generation generation;
  Step step;
  SlotIndex slot_count = 0;
  float loss_scale = 1.0F;
  std::vector<SlotSums::PartialSum> parts;  // this worker's own pushes; leaves are in their blocks' encoding
};

}  // namespace capstan::client
