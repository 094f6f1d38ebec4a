// AssignSlots, DealInOrderOf: which worker computes which slots. Workers' shares differ by at most one slot.
//
// Kind:   pure function.
// Why:    moving a slot to another worker changes no bit of the result, but may waste work already done for the slot.
#pragma once

#include <vector>

#include "common/base/types.h"

namespace capstan::server {

// `owned[i]`: slots worker i has now (may be empty). Returns the new slots of each worker, sorted. Every slot has one
// worker, shares differ by at most one, and earlier workers have the larger shares. A worker keeps its slots as far as
// its share allows.
std::vector<std::vector<SlotIndex>> AssignSlots(const std::vector<std::vector<SlotIndex>>& owned, SlotIndex slot_count);

// Deals shares of neighbouring slots, first to the workers of the lowest group, then to those of the next one.
// `group_of`: each worker's group. Returns the slots of each worker.
std::vector<std::vector<SlotIndex>> DealInOrderOf(const std::vector<std::size_t>& group_of, SlotIndex slot_count);

}  // namespace capstan::server
