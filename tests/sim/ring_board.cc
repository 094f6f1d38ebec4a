#include "tests/sim/ring_board.h"

#include <algorithm>

#include "tests/sim/model.h"

namespace capstan::sim {

bool RingGroup::Has(std::size_t step, std::size_t bucket) const {
  return step < steps.size() && steps[step].size() == size &&
         std::all_of(steps[step].begin(), steps[step].end(),
                     [bucket](const auto& part) { return part.second.handed_over[bucket]; });
}

bool RingGroup::IsWhole(std::size_t step) const {
  const std::size_t count = steps[step].empty() ? 0 : steps[step].begin()->second.handed_over.size();
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    if (!Has(step, bucket)) return false;
  }
  return count > 0;
}

RingGroup* RingBoard::Connect(const std::vector<std::string>& addresses, Generation generation, int rank) {
  std::string key = std::to_string(generation.value);
  for (const std::string& address : addresses) key += " " + address;
  RingGroup& group = groups_[key];
  group.generation = generation;
  group.size = addresses.size();
  group.members[rank] = std::stoull(addresses[static_cast<std::size_t>(rank)]);
  return &group;
}

void RingBoard::Gone(std::uint64_t node) {
  for (auto& [key, group] : groups_) {
    const bool member = std::any_of(group.members.begin(), group.members.end(),
                                    [node](const auto& entry) { return entry.second == node; });
    if (member) group.gone.insert(node);
  }
}

RingPart MakePart(const ClusterOptions& options, const Catalog& catalog, const float* weights, Step step,
                  std::vector<SlotIndex> slots) {
  RingPart part;
  part.step = step;
  part.sum.assign(catalog.element_count(), 0.0F);
  for (SlotIndex slot : slots) {
    const std::uint64_t samples = SamplesOf(options, step, slot);
    part.samples += samples;
    for (std::uint64_t i = 0; samples > 0 && i < part.sum.size(); ++i) {
      part.sum[i] += GradientOf(options, weights[i], step, slot, i) * static_cast<float>(samples);
    }
  }
  part.slots = std::move(slots);
  return part;
}

RingPart Sum(const std::map<int, RingPart>& parts) {
  RingPart all;
  for (const auto& [rank, part] : parts) {
    all.step = part.step;
    all.samples += part.samples;
    all.slots.insert(all.slots.end(), part.slots.begin(), part.slots.end());
    all.sum.resize(part.sum.size(), 0.0F);
    for (std::size_t i = 0; i < part.sum.size(); ++i) all.sum[i] += part.sum[i];
  }
  return all;
}

}  // namespace capstan::sim
