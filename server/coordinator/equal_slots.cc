#include "server/coordinator/equal_slots.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "common/wire/messages/prepared.h"
#include "server/coordinator/membership.h"

namespace capstan::server {
namespace {

std::map<SlotIndex, const std::string*> OwnersOf(const Membership& members) {
  std::map<SlotIndex, const std::string*> owners;
  for (const auto& [joined, worker] : members.workers()) {
    for (const SlotIndex slot : worker.slots) owners[slot] = &worker.name;
  }
  return owners;
}

}  // namespace

bool EqualSlots::See(Generation generation, Step step, const std::vector<const Prepared*>& prepared,
                     const Membership& members) {
  if (!text_.empty() || left_ == 0) return false;
  --left_;
  std::map<SlotIndex, Figures> now;
  for (const Prepared* const one : prepared) {
    for (const SlotReport& report : one->report.slots) {
      if (report.samples == 0 || report.loss_sum == 0 || !std::isfinite(report.loss_sum)) continue;
      std::uint64_t bits = 0;
      std::memcpy(&bits, &report.loss_sum, sizeof bits);
      now[report.slot] = {bits, report.predictions, report.samples};
    }
  }
  const bool follows = generation == generation_ && step == step_.Next();
  const std::map<SlotIndex, Figures> before = std::exchange(before_, std::move(now));
  generation_ = generation;
  step_ = step;
  if (!follows) return false;
  const std::map<SlotIndex, const std::string*> owners = OwnersOf(members);
  std::map<std::pair<Figures, Figures>, SlotIndex> first;  // by figures of both steps: the first slot that had them
  for (const auto& [slot, figures] : before_) {
    const auto earlier = before.find(slot);
    const auto owner = owners.find(slot);
    // A slot whose loss did not change between the two steps tells nothing about the samples that it drew.
    if (earlier == before.end() || owner == owners.end() || std::get<0>(earlier->second) == std::get<0>(figures))
      continue;
    const auto [same, is_new] = first.try_emplace({earlier->second, figures}, slot);
    const std::string& other = *owners.at(same->second);
    if (is_new || other == *owner->second) continue;
    text_ = "slots " + std::to_string(same->second) + " and " + std::to_string(slot) + " of step " +
            std::to_string(step.value) + " are equal: do \"" + other + "\" and \"" + *owner->second +
            "\" draw the same samples? seed each process by its rank, or take samples from slots()";
    return true;
  }
  return false;
}

}  // namespace capstan::server
