#include "server/coordinator/slot_assignment.h"

#include <algorithm>
#include <numeric>

namespace capstan::server {

std::vector<std::vector<SlotIndex>> AssignSlots(const std::vector<std::vector<SlotIndex>>& owned,
                                                SlotIndex slot_count) {
  const std::size_t workers = owned.size();
  std::vector<std::vector<SlotIndex>> assigned(workers);
  if (workers == 0) return assigned;
  std::vector<bool> taken(slot_count, false);
  const auto share = [&](std::size_t worker) { return slot_count / workers + (worker < slot_count % workers ? 1 : 0); };
  for (std::size_t worker = 0; worker < workers; ++worker) {
    for (SlotIndex slot : owned[worker]) {
      if (slot >= slot_count || taken[slot] || assigned[worker].size() == share(worker)) continue;
      taken[slot] = true;
      assigned[worker].push_back(slot);
    }
  }
  SlotIndex next = 0;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    while (assigned[worker].size() < share(worker)) {
      while (taken[next]) ++next;
      taken[next] = true;
      assigned[worker].push_back(next);
    }
    std::sort(assigned[worker].begin(), assigned[worker].end());
  }
  return assigned;
}

std::vector<std::vector<SlotIndex>> DealInOrderOf(const std::vector<std::size_t>& group_of, SlotIndex slot_count) {
  std::vector<std::size_t> order(group_of.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return group_of[a] < group_of[b]; });
  // AssignSlots gives workers that own nothing their shares in order, from the first slot on.
  const auto dealt = AssignSlots(std::vector<std::vector<SlotIndex>>(order.size()), slot_count);
  std::vector<std::vector<SlotIndex>> assigned(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) assigned[order[i]] = dealt[i];
  return assigned;
}

}  // namespace capstan::server
