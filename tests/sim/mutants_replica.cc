// Mutants: broken rules of mode allreduce.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/shard.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

namespace {

Incarnation IncarnationAt(const Tampering& t, std::uint64_t address) {
  const std::uint64_t index = address - kShards;
  const bool is = IsShardAddress(address) && index < t.world->incarnations.size();
  return is ? t.world->incarnations[index] : Incarnation{};
}

// Delivers the first array of a block also as the second one, so that the shard ignores the real second array.
void FirstArrayIsAll(Tampering* t, UploadBlock& upload) {
  if (upload.array != 0) return;
  UploadBlock forged = upload;
  forged.array = 1;
  t->before.push_back({forged, t->message.payload});
}

void CountAtOnce(Tampering* t, const Commit& commit) {
  if (t->shard() == nullptr) return;
  const Committed committed{static_cast<ShardIndex>(t->to - kShards), IncarnationAt(*t, t->to), commit.generation,
                            commit.step};
  t->also.push_back({t->to, kCoordinator, {committed, {}}});
}

void AddWorkers(std::vector<Mutant>* all) {
  const auto flawed = [&](const char* name, const char* broken, Flaw flaw) {
    all->push_back({name, broken, Mode::kAllReduce, flaw, {}, {}});
  };
  flawed("made-anywhere", "a worker takes what it made, whichever generation committed that step",
         Flaw::kMadeInAnyGeneration);
  flawed("replica-anywhere", "a worker takes its replica for the job's by the version alone",
         Flaw::kReplicaOfAnyGeneration);
  flawed("group-kept", "a worker goes on with its group in another generation", Flaw::kGroupKept);
  flawed("share-forgotten", "a worker but the first gives none of its share of a version that is to be kept",
         Flaw::kShareForgotten);
}

void AddWords(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Hook deliver, Hook send = {}) {
    all->push_back({name, broken, Mode::kAllReduce, Flaw::kNone, std::move(deliver), std::move(send)});
  };
  add("published-anywhere", "a worker takes the word of other generations that a version is published",
      On<Published>([](Tampering* t, Published& published) {
        if (t->world->coordinator == nullptr) return;
        published.generation = t->world->coordinator->generation();
        published.incarnation = IncarnationAt(*t, t->from);
      }));
  add("made-in-present", "a version is said to be made in the present generation",
      On<Published>([](Tampering*, Published& published) {
        if (published.made_in.value != 0) published.made_in = published.generation;
      }));
  add("made-in-forgotten", "it is not said which generation made a version",
      On<Published>([](Tampering*, Published& published) { published.made_in = {}; }));
  add("held-believed", "a worker believes that the shards have every version",
      On<Published>([](Tampering*, Published& published) { published.on_shards = true; }));
  add("skipped-applied", "a worker applies steps that were skipped",
      On<Published>([](Tampering*, Published& published) { published.action = StepAction::kApply; }));
  add("lost-unheard", "the coordinator does not hear that nobody has the version any more",
      On<Heartbeat>([](Tampering*, Heartbeat& beat) {
        if (beat.group == GroupState::kLost) beat.group = GroupState::kFormed;
      }));
  add("dealt-again", "slots are dealt again within a generation", {}, On<View>([](Tampering*, View& view) {
        for (SlotIndex& slot : view.slots) slot = static_cast<SlotIndex>((slot + view.sequence) % view.slot_count);
      }));
}

void AddShards(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Hook deliver, Hook send = {}) {
    all->push_back({name, broken, Mode::kAllReduce, Flaw::kNone, std::move(deliver), std::move(send)});
  };
  add("step-kept", "a shard counts ends of slots and blocks of a generation that is over",
      AtShard<EndSlot, UploadBlock>([](Tampering* t, auto& body, const server::Shard& shard) {
        body.generation = shard.generation();
        body.incarnation = IncarnationAt(*t, t->to);
      }));
  add("made-step", "a shard takes blocks of other steps for those of the present one",
      AtShard<UploadBlock>([](Tampering*, UploadBlock& upload, const server::Shard& shard) {
        upload.step = Step{shard.version().value};
      }));
  add("first-array-is-all", "a block is complete when its first array is there", On<UploadBlock>(FirstArrayIsAll));
  add("keep-forgotten", "one shard is not told that a version is to be kept", {},
      On<Commit>([](Tampering* t, Commit& commit) {
        if (t->to == kShards) commit.next.upload_next = false;
      }));
  add("held-forgotten", "one shard is told to hold a version that it was not given", {},
      On<Commit>([](Tampering* t, Commit& commit) {
        if (t->to == kShards) commit.next.on_shards = true;
      }));
  add("goes-back", "a shard goes back to the snapshot where it is to stay where it is",
      AtShard<Reset>(
          [](Tampering*, Reset& reset, const server::Shard&) { reset.timeline = TimelineFrom(reset.generation); }));
  add("snapshot-of-group", "a shard names a snapshot by the generation in which it was asked for it", {},
      On<SnapshotDone>([](Tampering* t, SnapshotDone& done) {
        const std::size_t index = static_cast<std::size_t>(t->from) - kShards;
        const auto asked = t->numbers->try_emplace(t->from * 1000 + done.version.value, Generation{}.value).first;
        if (index < t->world->shards.size() && t->world->shards[index] != nullptr && asked->second == 0)
          asked->second = t->world->shards[index]->generation().value;
        if (asked->second != 0) done.generation = Generation{asked->second};
      }));
  add("arrived-when-sent", "the group is formed again before a Commit is everywhere", {}, On<Commit>(CountAtOnce));
}

}  // namespace

void AddReplicas(std::vector<Mutant>* all) {
  AddWorkers(all);
  AddWords(all);
  AddShards(all);
}

}  // namespace capstan::sim
