// Who computes which slots: a fair share each, and as little moved as possible.
//
// Kind:   pure function.
// Why:    slots may move at any time without changing a bit; moving few wastes little work.
#pragma once

#include <vector>

#include "common/base/types.h"

namespace capstan::server {

// `held[i]`: slots worker i has now (may be empty). Returns the new slots of each worker, sorted: every slot has one
// worker, shares differ by at most one, earlier workers have the larger shares, and a worker keeps what it had as far
// as its share allows.
std::vector<std::vector<SlotIndex>> AssignSlots(const std::vector<std::vector<SlotIndex>>& held, SlotIndex slot_count);

// The same shares, of neighbouring slots: workers of the same group lie side by side, groups in order of their numbers.
// Returns the slots of each worker.
std::vector<std::vector<SlotIndex>> DealInOrderOf(const std::vector<std::size_t>& group_of, SlotIndex slot_count);

}  // namespace capstan::server
