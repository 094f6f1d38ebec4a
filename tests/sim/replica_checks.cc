#include "tests/sim/replica_checks.h"

#include <algorithm>

#include "common/wire/messages/commit.h"
#include "server/shard/shard.h"
#include "tests/sim/model.h"

namespace capstan::sim {

using server::Shard;

namespace {

std::string Named(Version version) { return "version " + std::to_string(version.value); }

void CopyStored(const Shard& shard, const Catalog& catalog, Arrays* arrays) {
  for (std::size_t index = 0; index < shard.store().size(); ++index) {
    const Block& block = catalog.blocks()[shard.store().blocks()[index]];
    const auto slices = shard.store().Arrays(index);
    for (std::size_t i = 0; i < arrays->size(); ++i) {
      const auto* values = reinterpret_cast<const float*>(slices[i].data);
      std::copy(values, values + block.count, (*arrays)[i].begin() + static_cast<std::ptrdiff_t>(block.flat_offset));
    }
  }
}

}  // namespace

ReplicaChecks::ReplicaChecks(const ClusterOptions& options, const Catalog& catalog,
                             std::function<void(std::string)> fail)
    : options_(options),
      catalog_(catalog),
      config_(MakeConfig(options)),
      fail_(std::move(fail)),
      replica_(catalog, config_) {}

bool ReplicaChecks::Holds(const server::Shard& shard) {
  return shard.last_commit() == nullptr || shard.last_commit()->next.on_shards;
}

void ReplicaChecks::See(const std::vector<const Shard*>& shards, const RingBoard& board) {
  bool all = true;
  for (const Shard* shard : shards) {
    all = all && shard != nullptr && shard->serving() && shard->timeline() == shards.front()->timeline();
    if (shard != nullptr && shard->serving()) timeline_of_[shard->generation()] = shard->timeline();
  }
  if (all) BeginTimeline(shards.front()->timeline(), shards);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] == nullptr || !shards[i]->serving()) continue;
    const std::pair now(shards[i]->generation(), shards[i]->version());
    if (std::exchange(seen_[i], now) == now) continue;
    SeeCommit(*shards[i], board);
    SeeUploaded(*shards[i]);
  }
}

// Call when all shards serve this timeline. It must begin with version 0, or with a version that was committed earlier.
void ReplicaChecks::BeginTimeline(TimelineId timeline, const std::vector<const Shard*>& shards) {
  const Version version = shards.front()->version();
  const bool begun = std::any_of(truths_.begin(), truths_.end(),
                                 [timeline](const auto& entry) { return entry.first.first == timeline; });
  if (begun) return;
  Truth truth{Stored(shards), 0};
  bool known = version.value == 0;
  for (const auto& [name, other] : truths_) {
    if (name.second != version) continue;
    known = other.arrays == truth.arrays;
    truth.updates = other.updates;
    if (known) break;
  }
  if (version.value == 0 && !followed_first_.empty() && followed_first_ != truth.arrays[0]) {
    fail_("a follower was given other first weights than the shards begin with");
  }
  if (!known) return fail_("a timeline begins with a " + Named(version) + " that was never committed");
  truths_[{timeline, version}] = std::move(truth);
}

Arrays ReplicaChecks::Stored(const std::vector<const Shard*>& shards) const {
  Arrays arrays(shards.front()->store().array_count(), std::vector<float>(catalog_.element_count()));
  for (const Shard* shard : shards) CopyStored(*shard, catalog_, &arrays);
  return arrays;
}

// Takes the Commit that made the shard's version. If the shard is the first that published the version, computes the
// version again, and compares it with what the workers made.
void ReplicaChecks::SeeCommit(const Shard& shard, const RingBoard& board) {
  const Commit* commit = shard.last_commit();
  if (!commit || truths_.contains({shard.timeline(), shard.version()})) return;
  const auto before = truths_.find({shard.timeline(), Version{commit->step.value}});
  if (before == truths_.end()) return fail_("a step was committed on a version that is not known");
  std::size_t index = 0;
  const RingGroup* group = GroupThatMade(commit->generation, commit->step, &index, board);
  if (group == nullptr) return;
  const RingGroup::Parts& parts = group->steps[index];
  CheckSlots(Sum(parts), commit->step);
  truths_[{shard.timeline(), shard.version()}] = Make(before->second, parts, commit->step, commit->action);
  const auto made = made_.find({commit->generation, shard.version()});
  if (made == made_.end() || made->second != truths_[{shard.timeline(), shard.version()}].arrays) {
    fail_("the workers made another " + Named(shard.version()) + " than the one that was committed");
  }
}

const RingGroup* ReplicaChecks::GroupThatMade(Generation generation, Step step, std::size_t* index,
                                              const RingBoard& board) {
  const RingGroup* made = nullptr;
  for (const auto& [key, group] : board.groups()) {
    if (group.generation != generation) continue;
    for (std::size_t i = 0; i < group.steps.size(); ++i) {
      if (!group.IsWhole(i) || group.steps[i].begin()->second.step != step) continue;
      if (made != nullptr) fail_("a step's gradients were added up twice in one generation");
      made = &group;
      *index = i;
    }
  }
  if (made == nullptr) fail_("a step was committed whose gradients no group of its generation has added up");
  return made;
}

void ReplicaChecks::CheckSlots(const RingPart& all, Step step) {
  std::vector<SlotIndex> slots = all.slots;
  std::sort(slots.begin(), slots.end());
  bool each = slots.size() == options_.slots;
  for (SlotIndex slot = 0; each && slot < options_.slots; ++slot) each = slots[slot] == slot;
  if (!each) fail_("step " + std::to_string(step.value) + " was made of another set of slots than all of them once");
}

ReplicaChecks::Truth ReplicaChecks::Make(const Truth& before, const RingGroup::Parts& parts, Step step,
                                         StepAction action) {
  for (std::size_t i = 0; i < before.arrays.size(); ++i) {
    std::copy(before.arrays[i].begin(), before.arrays[i].end(), replica_.array(i).begin());
  }
  replica_.Filled();
  RingGroup::Parts again;
  for (const auto& [rank, part] : parts) {
    again[rank] = MakePart(options_, catalog_, before.arrays[0].data(), step, part.slots);
    if (again[rank].sum != part.sum) fail_("a worker's gradients are of other weights than the committed ones");
    if (again[rank].samples != part.samples) fail_("a worker counts other samples than its slots have");
  }
  const RingPart all = Sum(again);
  replica_.BeginStep(ParametersOf(config_, step, before.updates), all.samples, all.sum.data());
  for (auto block = static_cast<BlockIndex>(catalog_.blocks().size()); block-- > 0;) replica_.UpdateBlock(block);
  const StepAction made = replica_.FinishStep(step).action;
  if (made != action) fail_("a step was applied that was to be skipped, or the other way round");
  Truth after;
  after.updates = before.updates + (made == StepAction::kApply ? 1 : 0);
  for (const Slice& slice : replica_.Made(made)) {
    const auto* values = reinterpret_cast<const float*>(slice.data);
    after.arrays.emplace_back(values, values + catalog_.element_count());
  }
  return after;
}

void ReplicaChecks::SeeUploaded(const Shard& shard) {
  const auto truth = truths_.find({shard.timeline(), shard.version()});
  if (!Holds(shard) || truth == truths_.end()) return;
  Arrays stored = truth->second.arrays;
  CopyStored(shard, catalog_, &stored);
  if (stored != truth->second.arrays)
    fail_("a shard holds other blocks of " + Named(shard.version()) + " than were made");
}

void ReplicaChecks::ComputesWith(Generation generation, Version version, const Arrays& arrays) {
  const auto truth = truths_.find({timeline_of_[generation], version});
  if (truth == truths_.end()) return fail_("a worker computes with a " + Named(version) + " that was not committed");
  if (truth->second.arrays != arrays) {
    fail_("a worker computes with another " + Named(version) + " than the one that was committed");
  }
}

// The weights must be those of the version on some timeline. The reader's own timeline may be unknown here, because a
// timeline becomes known only when all shards serve it at the same time.
void ReplicaChecks::Followed(Version version, const float* weights) {
  bool seen = false;
  for (const auto& [name, truth] : truths_) {
    const std::vector<float>& wanted = truth.arrays[0];
    if (name.second == version && std::equal(wanted.begin(), wanted.end(), weights)) return;
    seen = seen || name.second == version;
  }
  if (!seen && version == Version{0}) {  // shards have the first weights before anything is committed
    std::vector<float> first(weights, weights + catalog_.element_count());
    if (!followed_first_.empty() && followed_first_ != first) fail_("followers were given different first weights");
    followed_first_ = std::move(first);
    return;
  }
  fail_("a follower was given a " + Named(version) + " that was not committed");
}

void ReplicaChecks::Made(Generation generation, Version version, const Arrays& arrays) {
  const auto [first, added] = made_.try_emplace({generation, version}, arrays);
  if (!added && first->second != arrays) fail_("two members of a group made different weights");
}

Arrays ReplicaChecks::Read(const std::vector<const Shard*>& shards, Generation generation, Version version) {
  for (const Shard* shard : shards) {
    if (shard->version() != version) fail_("another version was read than the one that is believed");
    if (!Holds(*shard)) fail_("a version was read that the shards do not hold");
  }
  Arrays arrays = Stored(shards);
  const auto truth = truths_.find({timeline_of_[generation], version});
  if (truth == truths_.end() || truth->second.arrays != arrays) fail_("what was read was never committed");
  return arrays;
}

}  // namespace capstan::sim
