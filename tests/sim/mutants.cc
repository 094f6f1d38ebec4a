#include "tests/sim/mutants.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/wire/messages.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/shard.h"
#include "tests/sim/addresses.h"
#include "tests/sim/mutant_hooks.h"

namespace capstan::sim {

namespace {

Incarnation IncarnationOf(const Tampering& t, std::size_t shard) {
  return shard < t.world->incarnations.size() ? t.world->incarnations[shard] : Incarnation{};
}

bool ToWorker(const Tampering& t) { return t.to >= kWorkers; }

// Makes a shard's message to a worker look current, as if the worker did not check its generation and incarnation.
template <class Body>
void Refresh(Tampering* t, Body* body) {
  if (!ToWorker(*t) || t->world->coordinator == nullptr || !IsShardAddress(t->from)) return;
  body->generation = t->world->coordinator->generation();
  body->incarnation = IncarnationOf(*t, static_cast<std::size_t>(t->from - kShards));
}

// Notes these numbers, which name a message. Returns whether they were noted before in this run.
bool Repeated(Tampering* t, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d, std::uint64_t e) {
  return !t->seen->insert({a, b, c, d, e}).second;
}

void AddLabels(std::vector<Mutant>* all) {
  const auto add = [&](Mutant mutant) { all->push_back(std::move(mutant)); };
  add({"push-generation",
       "a shard takes pushes of other generations",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Push, EndSlot>(
           [](Tampering*, auto& body, const server::Shard& shard) { body.generation = shard.generation(); }),
       {}});
  add({"push-life",
       "a shard takes pushes of other generations, meant for its former lives",
       Mode::kAsync,
       Flaw::kNone,
       AtShard<Push, EndSlot, CoverageQuery>([](Tampering* t, auto& body, const server::Shard& shard) {
         body.generation = shard.generation();
         body.incarnation = IncarnationOf(*t, static_cast<std::size_t>(t->to - kShards));
       }),
       {}});
  add({"push-incarnation",
       "a shard takes pushes meant for its former lives, of its generation",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Push, EndSlot>([](Tampering* t, auto& body, const server::Shard&) {
         body.incarnation = IncarnationOf(*t, static_cast<std::size_t>(t->to - kShards));
       }),
       {}});
  add({"push-step",
       "a shard takes pushes of other steps for the present one",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Push>(
           [](Tampering*, Push& push, const server::Shard& shard) { push.step = Step{shard.version().value}; }),
       {}});
  add({"staged-life",
       "a worker believes acknowledgements of other generations and lives",
       Mode::kSync,
       Flaw::kNone,
       On<Staged>([](Tampering* t, Staged& staged) { Refresh(t, &staged); }),
       {}});
  add({"staged-life-async",
       "the same without global steps",
       Mode::kAsync,
       Flaw::kNone,
       On<Staged>([](Tampering* t, Staged& staged) { Refresh(t, &staged); }),
       {}});
  add({"staged-step",
       "a worker takes acknowledgements of a former step for the present one",
       Mode::kSync,
       Flaw::kNone,
       On<Staged>([](Tampering* t, Staged& staged) {
         if (ToWorker(*t) && !staged.full && t->world->coordinator != nullptr)
           staged.step = t->world->coordinator->step();
       }),
       {}});
  add({"weights-version", "a worker takes weights of whatever version", Mode::kSync, Flaw::kNone,
       AtShard<Pull>([](Tampering* t, Pull& pull, const server::Shard& shard) {
         (*t->numbers)[t->from] = pull.version.value;
         pull.version = shard.version();
       }),
       On<Weights>([](Tampering* t, Weights& weights) {
         if (const auto wanted = t->numbers->find(t->to); wanted != t->numbers->end()) {
           weights.version = Version{wanted->second};
         }
       })});
  add({"weights-life",
       "a worker takes weights of other generations and lives, if the version is right",
       Mode::kSync,
       Flaw::kNone,
       On<Weights>([](Tampering* t, Weights& weights) { Refresh(t, &weights); }),
       {}});
  add({"view-order",
       "a worker believes views that are older than its own",
       Mode::kSync,
       Flaw::kNone,
       On<View>([](Tampering* t, View& view) {
         if (view.session.value == 0) return;
         view.term = Term{1'000'000};
         view.sequence = ++(*t->numbers)[t->to];
       }),
       {}});
}

void AddTerms(std::vector<Mutant>* all) {
  const auto add = [&](Mutant mutant) { all->push_back(std::move(mutant)); };
  add({"term",
       "a shard obeys coordinators that were replaced",
       Mode::kSync,
       Flaw::kNone,
       On<Ping, Reset, Commit, Redo, Pin, RetainedSnapshots>([](Tampering* t, auto& body) {
         if (const server::Shard* shard = t->shard()) body.term = std::max(body.term, shard->term());
       }),
       {}});
  add({"zombie-forges",
       "a coordinator that was replaced speaks in the present term",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Ping, Reset, Commit, Redo, Pin, RetainedSnapshots>([](Tampering* t, auto& body) {
         if (t->from_zombie && t->world->coordinator != nullptr) body.term = t->world->coordinator->term();
       })});
  add({"hello-term",
       "a Hello that answers an older term counts as an answer to ours",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Hello>(
           [](Tampering*, Hello& hello, const server::Coordinator& coordinator) { hello.term = coordinator.term(); }),
       {}});
  add({"no-polling",
       "a coordinator asks each shard once who it is",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Ping>([](Tampering* t, Ping& ping) { t->drop = Repeated(t, 1, ping.term.value, t->to, 0, 0); })});
  add({"reset-incarnation",
       "a shard takes a Reset that was meant for its former life",
       Mode::kSync,
       Flaw::kNone,
       On<Reset>([](Tampering* t, Reset& reset) {
         reset.incarnation = IncarnationOf(*t, static_cast<std::size_t>(t->to - kShards));
       }),
       {}});
  add({"reset-program-state",
       "a Reset does not carry the program's state of its version",
       Mode::kSync,
       Flaw::kNone,
       On<Reset>([](Tampering*, Reset& reset) { reset.parameters.program_state.clear(); }),
       {}});
  add({"skipped-counted",
       "a worker is told of skipped steps as updates",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Weights>([](Tampering*, Weights& weights) { weights.updates = weights.version.value; })});
  add({"commit-generation",
       "a shard takes a Commit of another generation",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Commit>(
           [](Tampering*, Commit& commit, const server::Shard& shard) { commit.generation = shard.generation(); }),
       {}});
  add({"commit-attempt",
       "a shard takes a Commit of another attempt",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Commit>(
           [](Tampering*, Commit& commit, const server::Shard& shard) { commit.attempt = shard.engine().attempt(); }),
       {}});
  add({"commit-step",
       "a shard takes a Commit of another step",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Commit>(
           [](Tampering*, Commit& commit, const server::Shard& shard) { commit.step = Step{shard.version().value}; }),
       {}});
  add({"commit-again",
       "a new coordinator does not repeat a published Commit as it was",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Commit>([](Tampering* t, Commit& commit) {
         const std::uint64_t first = (*t->numbers)[commit.generation.value << 32 | commit.step.value];
         if (first == 0) (*t->numbers)[commit.generation.value << 32 | commit.step.value] = commit.term.value;
         if (first != 0 && first != commit.term.value) commit.next.learning_rate *= 2.0F;
       })});
  add({"commit-once",
       "a Commit is sent once",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Commit>([](Tampering* t, Commit& commit) {
         t->drop = Repeated(t, 2, t->to, commit.generation.value, commit.step.value, commit.term.value);
       })});
}

void AddAnswers(std::vector<Mutant>* all) {
  const auto add = [&](Mutant mutant) { all->push_back(std::move(mutant)); };
  add({"prepared-life",
       "Prepared counts whatever its generation and incarnation",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Prepared>([](Tampering* t, Prepared& prepared, const server::Coordinator& coordinator) {
         prepared.generation = coordinator.generation();
         prepared.incarnation = IncarnationOf(*t, prepared.shard);
       }),
       {}});
  add({"prepared-step",
       "Prepared counts whatever its step",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Prepared>([](Tampering*, Prepared& prepared, const server::Coordinator& coordinator) {
         prepared.step = coordinator.step();
       }),
       {}});
  add({"prepared-attempt",
       "Prepared counts for whatever attempt",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Prepared>(
           [](Tampering*, Prepared& prepared, const server::Coordinator&) { prepared.attempt = 1; }),
       {}});
  add({"committed-life",
       "Committed counts whatever its generation and incarnation",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Committed>([](Tampering* t, Committed& committed, const server::Coordinator& coordinator) {
         committed.generation = coordinator.generation();
         committed.incarnation = IncarnationOf(*t, committed.shard);
       }),
       {}});
  add({"reset-done-life",
       "ResetDone counts whatever its generation and incarnation",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<ResetDone>([](Tampering* t, ResetDone& done, const server::Coordinator& coordinator) {
         done.generation = coordinator.generation();
         done.incarnation = IncarnationOf(*t, done.shard);
       }),
       {}});
  add({"snapshot-life",
       "SnapshotDone counts for the present generation, whichever took it",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<SnapshotDone>([](Tampering* t, SnapshotDone& done, const server::Coordinator& coordinator) {
         done.term = coordinator.term();
         done.generation = coordinator.generation();
         done.incarnation = IncarnationOf(*t, done.shard);
       }),
       {}});
  add({"snapshot-term",
       "SnapshotDone counts although it was said to a coordinator before",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<SnapshotDone>([](Tampering*, SnapshotDone& done, const server::Coordinator& coordinator) {
         done.term = coordinator.term();
       }),
       {}});
  add({"snapshot-parameters",
       "a snapshot comes with the parameters of another step",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<SnapshotDone>([](Tampering*, SnapshotDone& done) { ++done.parameters.updates; })});
  add({"snapshot-failure",
       "a shard that could not write its part says that it did",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<SnapshotDone>([](Tampering*, SnapshotDone& done) { done.failure.clear(); })});
  add({"one-snapshot",
       "one snapshot is kept instead of two",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<RetainedSnapshots>([](Tampering*, RetainedSnapshots& retained) {
         if (retained.ids.size() > 1) retained.ids.erase(retained.ids.begin(), retained.ids.end() - 1);
       })});
  add({"newest-deleted",
       "the newest snapshot is deleted",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<RetainedSnapshots>([](Tampering*, RetainedSnapshots& retained) {
         if (!retained.ids.empty()) retained.ids.pop_back();
       })});
  add({"ack-on-arrival",
       "a push is acknowledged when it arrives, staged or not",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Push>([](Tampering* t, Push& push, const server::Shard&) {
         Staged staged;
         staged.generation = push.generation;
         staged.incarnation = push.incarnation;
         staged.shard = static_cast<ShardIndex>(t->to - kShards);
         staged.step = push.step;
         staged.nodes = {{push.block, push.node}};
         staged.credit = 1;
         t->also.push_back({t->to, t->from, {staged, {}}});
       }),
       {}});
  add({"ack-when-sent",
       "a gradient is let go of when it is sent",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Push>([](Tampering* t, Push& push) {
         Staged staged;
         staged.generation = push.generation;
         staged.incarnation = push.incarnation;
         staged.shard = static_cast<ShardIndex>(t->to - kShards);
         staged.step = push.step;
         staged.nodes = {{push.block, push.node}};
         staged.credit = UINT32_MAX;
         t->also.push_back({t->to, t->from, {staged, {}}});
       })});
  add({"node-as-leaf",
       "a shard takes a node for the leaf it begins with",
       Mode::kSync,
       Flaw::kNone,
       On<Push>([](Tampering* t, Push& push) {
         if (t->shard() != nullptr) push.node.end = push.node.begin + 1;
       }),
       {}});
  add({"samples",
       "a shard counts every slot as one sample",
       Mode::kSync,
       Flaw::kNone,
       On<Push>([](Tampering* t, Push& push) {
         if (t->shard() != nullptr && push.samples > 0) push.samples = 1;
       }),
       {}});
}

void AddSequences(std::vector<Mutant>* all) {
  const auto add = [&](Mutant mutant) { all->push_back(std::move(mutant)); };
  add({"gap-accepted",
       "async: a push is applied although the one before it is missing",
       Mode::kAsync,
       Flaw::kNone,
       AtShard<Push>([](Tampering* t, Push& push, const server::Shard&) {
         if (push.step.value < 2) return;
         Push empty = push;
         empty.step = Step{push.step.value - 1};
         empty.samples = 0;
         empty.payload_hash = 0;
         t->before.push_back({empty, {}});
       }),
       {}});
  add({"duplicate-applied",
       "async: a push that comes again is applied again",
       Mode::kAsync,
       Flaw::kNone,
       AtShard<Push>([](Tampering* t, Push& push, const server::Shard& shard) {
         const std::uint64_t where = t->to << 32 | push.block;
         if (Repeated(t, where, shard.generation().value, push.incarnation.value, push.node.begin, push.step.value)) {
           push.step = push.step.Next();
         }
       }),
       {}});
  add({"owner-ahead",
       "async: a new owner begins behind a push that not all blocks have",
       Mode::kAsync,
       Flaw::kNone,
       {},
       On<Staged>([](Tampering*, Staged& staged) {
         for (SequenceNumber& clock : staged.clocks) ++clock.value;
       })});
  add({"clock-update-early",
       "async: shards are told that a step's reports were counted before they were",
       Mode::kAsync,
       Flaw::kNone,
       {},
       On<ClockUpdate>([](Tampering*, ClockUpdate& update) { update.clock = update.clock.Next(); })});
  add({"reports-once",
       "async: a slot's report is sent once",
       Mode::kAsync,
       Flaw::kNone,
       {},
       On<Progress>([](Tampering* t, Progress& progress) {
         std::erase_if(progress.reports, [&](const Progress::Entry& entry) {
           return Repeated(t, 15, t->from, progress.generation.value, entry.sequence.value, entry.report.slot);
         });
       })});
  add({"clocks-early",
       "async: the coordinator counts a push before every shard has it",
       Mode::kAsync,
       Flaw::kNone,
       {},
       On<Progress>([](Tampering*, Progress& progress) {
         for (SequenceNumber& clock : progress.clocks) ++clock.value;
       })});
}

void AddRepetitions(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Hook send) {
    all->push_back({name, broken, Mode::kSync, Flaw::kNone, {}, std::move(send)});
  };
  add("push-once", "a push is sent once", On<Push>([](Tampering* t, Push& push) {
        t->drop = Repeated(t, 10 + (t->from << 8), t->to, push.generation.value << 32 | push.step.value, push.block,
                           std::uint64_t{push.node.begin} << 32 | push.node.end);
      }));
  add("end-once", "the end of a slot is sent once", On<EndSlot>([](Tampering* t, EndSlot& end) {
        t->drop = Repeated(t, 11, t->from, end.generation.value, end.step.value, end.report.slot);
      }));
  add("prepared-once", "Prepared is sent once", On<Prepared>([](Tampering* t, Prepared& prepared) {
        t->drop = Repeated(t, 12, t->from, prepared.generation.value, prepared.step.value, prepared.attempt);
      }));
  add("reset-once", "a Reset is sent once to each life", On<Reset>([](Tampering* t, Reset& reset) {
        t->drop = Repeated(t, 13, t->to, reset.generation.value, reset.incarnation.value, 0);
      }));
  add("snapshot-once", "SnapshotDone and Pin are sent once", On<SnapshotDone, Pin>([](Tampering* t, auto& body) {
        t->drop = Repeated(t, 14, t->from, t->to, body.generation.value, body.version.value);
      }));
}

void AddLies(std::vector<Mutant>* all) {
  const auto add = [&](Mutant mutant) { all->push_back(std::move(mutant)); };
  add({"push-hash",
       "a shard does not look at a payload's hash",
       Mode::kSync,
       Flaw::kNone,
       On<Push>([](Tampering* t, Push& push) {
         if (!t->message.payload.empty()) push.payload_hash = Hash64(t->message.payload.bytes());
       }),
       {}});
  add({"weights-hash",
       "a worker does not look at a payload's hash",
       Mode::kSync,
       Flaw::kNone,
       On<Weights>([](Tampering* t, Weights& weights) {
         if (!t->message.payload.empty()) weights.payload_hash = Hash64(t->message.payload.bytes());
       }),
       {}});
  add({"generations",
       "shards look at no generation",
       Mode::kSync,
       Flaw::kNone,
       AtShard<Push, EndSlot, CoverageQuery, Pull, Commit, Redo, Pin, RetainedSnapshots>(
           [](Tampering*, auto& body, const server::Shard& shard) { body.generation = shard.generation(); }),
       {}});
  add({"incarnations",
       "nobody looks at incarnations",
       Mode::kSync,
       Flaw::kNone,
       On<Push, EndSlot, CoverageQuery, Pull, Reset, Prepared, Committed, ResetDone, ResetBad, SnapshotDone, Staged,
          Weights>([](Tampering* t, auto& body) {
         const std::uint64_t shard = IsShardAddress(t->to) ? t->to : t->from;
         if (IsShardAddress(shard)) body.incarnation = IncarnationOf(*t, static_cast<std::size_t>(shard - kShards));
       }),
       {}});
  add({"hello-life",
       "a Hello of a former life is taken for one of the present life",
       Mode::kSync,
       Flaw::kNone,
       AtCoordinator<Hello>([](Tampering* t, Hello& hello, const server::Coordinator& coordinator) {
         hello.incarnation = IncarnationOf(*t, hello.shard);
         hello.term = coordinator.term();
         if (hello.prepared) hello.prepared->incarnation = hello.incarnation;
       }),
       {}});
  add({"coverage",
       "a shard says that it holds what it does not",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<Staged>([](Tampering*, Staged& staged) {
         if (!staged.full) return;
         for (Staged::Entry& entry : staged.nodes) ++entry.node.end;
         for (SlotIndex slot = 0; slot < 6; ++slot) staged.ended.push_back(slot);
       })});
  add({"settled-early",
       "parts are deleted before it is known whether their snapshot exists",
       Mode::kSync,
       Flaw::kNone,
       {},
       On<RetainedSnapshots>([](Tampering*, RetainedSnapshots& retained) {
         retained.settled = {retained.generation, Version{UINT32_MAX}};
       })});
  add({"staleness", "bounded: a pull does not wait for the slowest slot", Mode::kBounded, Flaw::kNone,
       AtShard<Pull>([](Tampering* t, Pull& pull, const server::Shard&) {
         (*t->numbers)[t->from] = pull.version.value;
         pull.version = {};
       }),
       On<Weights>([](Tampering* t, Weights& weights) {
         if (const auto asked = t->numbers->find(t->to); asked != t->numbers->end()) {
           weights.asked = Version{asked->second};
         }
       })});
}

void AddFlaws(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Flaw flaw, Mode mode = Mode::kSync) {
    all->push_back({name, broken, mode, flaw, {}, {}});
  };
  add("part-not-durable", "SnapshotDone is sent before the part is on disk", Flaw::kWriteNotDurable);
  add("damage-unseen", "a damaged part is used", Flaw::kDamageHashed);
  add("older-part", "the disk hands out the part before the one asked for", Flaw::kOlderArrays);
  add("no-optimizer-state", "a part does not hold the optimizer's state", Flaw::kNoOptimizerState);
  add("no-sequence-numbers", "async: a part does not hold which pushes are in it", Flaw::kNoSequenceNumbers,
      Mode::kAsync);
  add("incarnation-forgotten", "all lives of a shard have one number", Flaw::kIncarnationForgotten);
  add("generation-forgotten", "a shard does not remember its generation", Flaw::kGenerationForgotten);
  add("recover-not-durable", "RECOVER is sent before it is durable", Flaw::kRecoverNotDurable);
  add("running-not-durable", "RUNNING is acted on before it is durable", Flaw::kRunningNotDurable);
  add("manifest-not-durable", "a manifest is announced before it is durable", Flaw::kManifestNotDurable);
  add("term-forgotten", "terms are not remembered: all coordinators have one", Flaw::kTermForgotten);
  add("sum-order", "a worker adds its slots in another order than the tree's", Flaw::kSumInSlotOrder);
  add("data-by-position", "a worker gives its slots their data by position, not by number", Flaw::kDataByPosition);
  add("not-reproducible", "a gradient depends on who computed it", Flaw::kNotReproducible);
  add("old-weights", "a worker computes before it has all blocks of the version", Flaw::kOldWeights);
  add("own-program-state", "a program goes on from the state that it made last", Flaw::kOwnProgramState);
}

void AddLogs(std::vector<Mutant>* all) {
  const auto add = [&](const char* name, const char* broken, Flaw flaw) {
    all->push_back({name, broken, Mode::kAsync, flaw, {}, {}, true});
  };
  add("log-not-durable", "a push is acknowledged before it is durable", Flaw::kLogNotDurable);
  add("replayed-twice", "a record of the log counts twice when it is replayed", Flaw::kReplayedTwice);
  add("log-trimmed-early", "the log is trimmed before the snapshot that stands for it exists", Flaw::kLogTrimmedEarly);
  add("sequence-numbers-lost", "a part does not hold which pushes are in it", Flaw::kNoSequenceNumbers);
  all->push_back({"clocks-early-durable",
                  "the coordinator counts a push before every shard has it on disk",
                  Mode::kBounded,
                  Flaw::kNone,
                  {},
                  On<Progress>([](Tampering*, Progress& progress) {
                    for (SequenceNumber& clock : progress.clocks) ++clock.value;
                  }),
                  true});
}

std::vector<Mutant> MakeMutants() {
  std::vector<Mutant> all;
  AddLabels(&all);
  AddTerms(&all);
  AddRedos(&all);
  AddAnswers(&all);
  AddSequences(&all);
  AddRepetitions(&all);
  AddLies(&all);
  AddFlaws(&all);
  AddLogs(&all);
  AddSpeculative(&all);
  AddEnding(&all);
  AddLimits(&all);
  AddReplicas(&all);
  AddExternal(&all);
  AddMachine(&all);
  AddSessions(&all);
  AddSharedMemory(&all);
  return all;
}

}  // namespace

const std::vector<Mutant>& Mutants() {
  static const std::vector<Mutant> all = MakeMutants();
  return all;
}

const Mutant* FindMutant(const std::string& name) {
  const auto found = std::ranges::find(Mutants(), name, &Mutant::name);
  return found == Mutants().end() ? nullptr : &*found;
}

}  // namespace capstan::sim
