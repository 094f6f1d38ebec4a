// Mutants: broken rules of jobs whose optimizer stays in the program.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/shard.h"
#include "tests/sim/mutant_hooks.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

void AddExternal(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Flaw flaw, Hook deliver, Hook send = {}) {
    all->push_back({.name = name,
                    .broken = broken,
                    .flaw = flaw,
                    .deliver = std::move(deliver),
                    .send = std::move(send),
                    .external = true});
  };
  add("skipped-made", "a program makes a step with the gradient of a skipped one", Flaw::kSkippedStepMade, {});
  add("made-unsaid", "a program makes a version, and its session does not know it", Flaw::kVersionUnsaid, {});
  add("loading-unheard", "steps are decided while a program waits for a whole version", Flaw::kNone,
      On<Heartbeat>([](Tampering*, Heartbeat& beat) { beat.loads = false; }));
  add("having-believed", "every worker is believed to have the version", Flaw::kNone,
      On<Heartbeat>([](Tampering*, Heartbeat& beat) { beat.has_version = true; }));
  add("having-anywhere", "a worker has the version if it had it in an earlier generation", Flaw::kNone,
      AtCoordinator<Heartbeat>([](Tampering*, Heartbeat& beat, const server::Coordinator& receiver) {
        beat.generation = receiver.generation();
      }));
  add("keeper-unasked", "no worker is asked for a version", Flaw::kNone, {},
      On<View>([](Tampering*, View& view) { view.founder = view.founder && view.step.value == 0; }));
  add("upload-of-any-version", "a shard takes what was uploaded for the version that it has", Flaw::kNone,
      AtShard<UploadBlock>([](Tampering*, UploadBlock& upload, const server::Shard& shard) {
        if (upload.step.value != 0) upload.step = Step{shard.version().value};
      }));
  add("upload-anywhere", "a shard takes what was uploaded in earlier generations for the version that it has",
      Flaw::kNone, AtShard<UploadBlock>([](Tampering* t, UploadBlock& upload, const server::Shard& shard) {
        const std::uint64_t index = t->to - kShards;
        if (index >= t->world->incarnations.size() || upload.generation == shard.generation()) return;
        upload.generation = shard.generation();
        upload.incarnation = t->world->incarnations[index];
        upload.step = Step{shard.version().value};
      }));
  add("head-forgotten", "a version is uploaded without its program's state", Flaw::kNone, {},
      On<UploadBlock>([](Tampering*, UploadBlock& upload) { upload.program_state.clear(); }));
  add("last-answered-early", "the last Commit counts as answered before the last version is on the shards", Flaw::kNone,
      On<Commit>([](Tampering* t, Commit& commit) {
        const std::uint64_t index = t->to - kShards;
        if (t->shard() == nullptr || index >= t->world->incarnations.size()) return;
        const Committed early{static_cast<ShardIndex>(index), t->world->incarnations[index], commit.generation,
                              commit.step};
        t->also.push_back({t->to, kCoordinator, {early, {}}});
      }));
}

}  // namespace capstan::sim
