#include "tests/sim/checks.h"

#include <algorithm>
#include <type_traits>

#include "common/base/running_minimum.h"
#include "common/data/encoding.h"
#include "common/wire/messages.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "tests/sim/model.h"
#include "worker/session/session.h"

namespace capstan::sim {

using server::Coordinator;
using server::Shard;

namespace {

constexpr std::size_t kWalkedMax = 16;  // a worker may learn late of some steps

}  // namespace

Checks::Checks(const ClusterOptions& options, Outcome* outcome)
    : options_(options),
      outcome_(outcome),
      catalog_(Catalog::Create(MakeCatalog(options), options.block_elements).value()) {
  if (WorkersUpdate(options_.mode)) {
    replicas_ =
        std::make_unique<ReplicaChecks>(options_, catalog_, [this](std::string what) { Fail(std::move(what)); });
  }
  for (std::uint32_t kind = 0; kind < options_.given_kinds; ++kind) founders_.push_back(options_.given_from + kind);
}

Checks::~Checks() = default;

void Checks::See(const Coordinator* coordinator, const std::vector<const Shard*>& shards,
                 const std::vector<SimDisk>& disks) {
  SeeDisks(disks);
  const bool running = coordinator != nullptr && coordinator->state() == Coordinator::State::kRunning;
  std::uint64_t lowest = UINT64_MAX, highest = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] != nullptr && shards[i]->shut_down()) Fail("a shard was told to end");
    if (shards[i] == nullptr || !shards[i]->serving()) continue;
    SeeShard(i, shards);
    if (!running || shards[i]->generation() != coordinator->generation()) continue;
    lowest = std::min(lowest, shards[i]->version().value);
    highest = std::max(highest, shards[i]->version().value);
  }
  if (HasGlobalSteps(options_.mode) && lowest != UINT64_MAX && highest - lowest > 1) {
    Fail("I2: shards differ by more than one step");
  }
  if (coordinator == nullptr) return;
  if (coordinator->state() == Coordinator::State::kFailed) Fail("the job failed: " + coordinator->failure().message());
  if (coordinator->term() < term_ || coordinator->generation() < generation_) Fail("I7: a coordinator's number fell");
  term_ = coordinator->term();
  generation_ = coordinator->generation();
  if (running) SeeManifest(*coordinator, disks);
  if (running && options_.durable) SeeTimeline(*coordinator);
}

void Checks::SeeShard(std::size_t index, const std::vector<const Shard*>& shards) {
  const Shard& shard = *shards[index];
  if (shard.engine().hash_mismatches() != 0) Fail("one slot was computed with two results");
  if (options_.mode == Mode::kBounded) SeeStaleness(shard);
  if (options_.durable) SeeLogged(index, shard);
  if (shard.awaits_first_weights()) return;  // nothing is decided yet
  if (options_.given) SeeFirstWeights(shard);
  if (!HasGlobalSteps(options_.mode)) return;
  auto& [generation, version] = seen_[index];
  if (generation == shard.generation() && version == shard.version()) return;
  if (generation == shard.generation() && shard.version() < version) Fail("a version fell within a generation");
  if (generation == shard.generation() && shard.version() > version) SeePublished(shard, shards);
  generation = shard.generation();
  version = shard.version();
  if (const Commit* commit = shard.last_commit()) SeeCommit(*commit);
  if (replicas_ || is_external()) return;  // their weights are checked elsewhere
  SeeWeights(shard);
  const std::uint64_t digest = shard.store().Digest();
  const auto [known, added] = digests_.try_emplace({index, version}, digest);
  if (!added && known->second != digest) {
    Fail("I5: version " + std::to_string(version.value) + " of shard " + std::to_string(index) +
         " differs between generations");
  }
}

void Checks::SeeWeights(const Shard& shard) {
  for (std::size_t index = 0; index < shard.store().size(); ++index) {
    const Slice weights = shard.store().Weights(index);
    const auto* values = reinterpret_cast<const float*>(weights.data);
    published_[{shard.version(), shard.store().blocks()[index]}].assign(values, values + shard.store().count(index));
  }
}

// With global steps a worker must compute with the published version, bit for bit.
void Checks::HandedOver(Version version, BlockIndex index, const Slice& payload, Encoding weights) {
  if (!HasGlobalSteps(options_.mode) || is_external()) return;
  const auto known = published_.find({version, index});
  if (known == published_.end()) return Fail("a worker computes with weights that nobody has published");
  const Encoding encoding = catalog_.blocks()[index].EncodingIn(weights);
  std::vector<std::byte> wanted(known->second.size() * BytesPerNumber(encoding));
  Encode(encoding, known->second, wanted.data());
  if (!std::equal(wanted.begin(), wanted.end(), payload.bytes().begin(), payload.bytes().end())) {
    Fail("a worker computes with weights that are not the published ones");
  }
}

void Checks::ProgramMade(Version version, const std::vector<float>& weights, const std::string& state) {
  const auto [known, added] = made_.try_emplace(version, weights, state);
  if (!added && known->second != std::pair(weights, state)) Fail("two programs have made different versions");
}

void Checks::Followed(Version version, const float* weights) {
  if (replicas_) return replicas_->Followed(version, weights);
  if (!HasGlobalSteps(options_.mode)) return;
  if (is_external()) {
    const auto made = made_.find(version);
    if (made != made_.end() && std::equal(made->second.first.begin(), made->second.first.end(), weights)) return;
    if (version.value != 0) Fail("a follower was given weights that no program has made");
    return;
  }
  for (BlockIndex i = 0; i < catalog_.blocks().size(); ++i) {
    const auto known = published_.find({version, i});
    if (known == published_.end()) return Fail("a follower was given weights that nobody has published");
    if (!std::equal(known->second.begin(), known->second.end(), weights + catalog_.blocks()[i].flat_offset)) {
      return Fail("a follower was given weights that are not the published ones");
    }
  }
}

void Checks::SeePassed(std::uint64_t node, const session::RoundWork& work, const Header& to_worker) {
  const auto* staged = to_worker.As<Staged>();
  if (staged == nullptr || !staged->passed || options_.mode != Mode::kSync) return;
  std::set<Step>& steps = walked_[node];
  if (work.step >= staged->step) return steps.clear();
  steps.insert(staged->step);
  if (steps.size() > kWalkedMax) Fail("a worker walks to the present step through all that are over");
}

// A slot that has made n pushes computes the next one with weights that contain at least n - staleness pushes of every
// slot. So the newest sequence numbers that a block has of two slots differ by at most staleness + 1.
void Checks::SeeStaleness(const Shard& shard) {
  for (std::size_t index = 0; index < shard.store().size(); ++index) {
    const auto last = shard.engine().sequence_numbers(index);
    const auto [lowest, highest] = std::minmax_element(last.begin(), last.end());
    const std::uint64_t apart = highest->value - lowest->value;
    if (apart > options_.staleness + 1) Fail("a slot is further ahead than the staleness allows");
    if (apart == options_.staleness + 1) ++outcome_->counts["slots as far ahead as allowed"];
  }
}

// The first weights in version 0 must come from workers of one kind (see FirstWeight) on all shards, whatever was lost
// before the snapshot of version 0 was complete.
void Checks::SeeFirstWeights(const Shard& shard) {
  for (std::size_t index = 0; index < shard.store().size(); ++index) {
    const Block& block = catalog_.blocks()[shard.store().blocks()[index]];
    const bool first = HasGlobalSteps(options_.mode) ? shard.version().value == 0 : shard.engine().updates(index) == 0;
    if (!first) continue;
    const Slice weights = shard.store().Weights(index);
    const auto* values = reinterpret_cast<const float*>(weights.data);
    for (std::uint32_t i = 0; i < block.segment_count; ++i) {
      const Segment& segment = catalog_.segments()[block.first_segment + i];
      if (catalog_.tensors()[segment.tensor].init.kind != InitKind::kFromWorker) continue;
      std::erase_if(founders_, [&](std::uint32_t kind) {
        for (std::uint32_t j = segment.block_offset; j < segment.block_offset + segment.count; ++j) {
          if (values[j] != FirstWeight(kind, block.flat_offset + j)) return true;
        }
        return false;
      });
    }
  }
  if (founders_.empty()) Fail("first weights of two workers are mixed, or are nobody's");
}

void Checks::Acknowledged(std::size_t index, TimelineId timeline, const Header& header) {
  Promises& promises = promises_[index];
  if (promises.timeline != timeline) promises = {timeline, {}, {}, 0};
  const auto raise = [](SequenceNumber* number, SequenceNumber to) { *number = std::max(*number, to); };
  const auto* staged = header.As<Staged>();
  const auto* progress = header.As<Progress>();
  if (staged != nullptr) {
    for (const Staged::Entry& entry : staged->nodes) {
      raise(&promises.pushes[{entry.block, entry.node.begin}], SequenceOf(staged->step));
    }
  }
  if (staged == nullptr && progress == nullptr) return;
  const std::vector<SequenceNumber>& clocks = staged != nullptr ? staged->clocks : progress->clocks;
  for (SlotIndex slot = 0; slot < clocks.size(); ++slot) {
    if (clocks[slot] != RunningMinimum::kNone) raise(&promises.clocks[slot], clocks[slot]);
  }
}

// A shard must have all pushes that it acknowledged, and the same state after the same log record in every incarnation.
void Checks::SeeLogged(std::size_t index, const Shard& shard) {
  Promises& promises = promises_[index];
  if (promises.timeline != shard.timeline()) return;
  for (std::size_t i = 0; i < shard.store().size(); ++i) {
    const BlockIndex block = shard.store().blocks()[i];
    const auto last = shard.engine().sequence_numbers(i);
    for (SlotIndex slot = 0; slot < last.size(); ++slot) {
      const auto push = promises.pushes.find({block, slot});
      const auto clock = promises.clocks.find(slot);
      const bool lost = (push != promises.pushes.end() && last[slot] < push->second) ||
                        (clock != promises.clocks.end() && last[slot] < clock->second);
      if (lost) Fail("an acknowledged push is lost");
    }
  }
  if (promises.records == shard.journal()->applied_records()) return;
  promises.records = shard.journal()->applied_records();
  const std::uint64_t digest = shard.store().Digest();
  const auto [known, added] = log_digests_.try_emplace({index, shard.timeline(), promises.records}, digest);
  if (!added && known->second != digest) Fail("the state after a record of the log differs between lives");
}

void Checks::SeeTimeline(const Coordinator& coordinator) {
  if (coordinator.AwaitsInitialWeights()) {  // nothing was acknowledged, and nothing can be lost
    timeline_ = {};
    return;
  }
  const TimelineId before = std::exchange(timeline_, coordinator.timeline());
  if (before == timeline_) return;
  const std::uint64_t said = std::exchange(said_lost_, 0);
  if (before.value == 0) return;
  ++outcome_->counts["timeline ended, and was reported"];
  if (said == 0) Fail("acknowledged pushes were lost, and nobody said so");
  if (!may_go_back_) Fail("acknowledged pushes were lost without a cause");
}

// When a shard publishes, every shard of its generation must have published too, or have prepared the same attempt.
void Checks::SeePublished(const Shard& shard, const std::vector<const Shard*>& shards) {
  for (const Shard* other : shards) {
    if (other == nullptr || !other->serving() || other->generation() != shard.generation()) continue;
    if (other->version() >= shard.version()) continue;
    const std::uint32_t attempt = shard.last_commit() ? shard.last_commit()->attempt : 0;
    if (!other->engine().prepared() || other->engine().attempt() != attempt)
      Fail("I1: a step is published that not all have prepared");
  }
}

void Checks::ToStranger(const Message& message) {
  const auto* error = message.header.As<Error>();
  if (error == nullptr) return Fail("I8: a stranger was answered");
  const bool told = error->generation.value != 0 || error->incarnation.value != 0 || error->step.value != 0;
  if (told) Fail("I8: a stranger was told the job's numbers");
}

void Checks::PushCounted(const Shard& shard, Incarnation incarnation, std::size_t index, Version before,
                         const Push& push) {
  const LiveSession* sender = shard.sessions().Find(push.session);
  if (sender == nullptr || !server::MayPush(*sender, push.node))
    Fail("I8: a push was counted that its session may not send");
  if (push.generation != shard.generation() || push.incarnation != incarnation)
    Fail("I3: a push of another life was counted");
  if (HasGlobalSteps(options_.mode)) {
    if (push.step.value != before.value) Fail("I3: a push of another step was counted");
    return;
  }
  const std::tuple key{index, push.generation, push.block, push.node.begin};
  const auto [newest, added] = counted_.try_emplace(key, push.step);
  if (added) return;
  if (push.step != newest->second.Next()) Fail("I4: a push was counted twice, or one was left out");
  newest->second = push.step;
}

// All Commits of one generation and step must be equal except for the term.
void Checks::SeeCommit(Commit commit) {
  commit.term = {};
  std::unique_ptr<const Commit>& known = commits_[{commit.generation, commit.step}];
  const bool added = known == nullptr;
  if (added) known = std::make_unique<const Commit>(commit);
  if (!added && !(*known == commit)) Fail("two different commits of one step");
  SeeUpdates(commit.step.Next(), commit.next.updates);
  if (!added || options_.program_state == ClusterOptions::ProgramState::kNone) return;
  ++outcome_->counts["commits with a program state"];
  if (commit.next.program_state != ProgramStateAt(commit.step.Next()))
    Fail("a step's program state is not the one made");
}

void Checks::SeeUpdates(Step step, std::uint64_t updates) {
  const auto [known, added] = updates_.try_emplace(step, updates);
  if (!added && known->second != updates) Fail("a version has had another number of updates");
}

void Checks::SeeDisks(const std::vector<SimDisk>& disks) {
  for (std::size_t i = 0; i < disks.size(); ++i) {
    if (!disks[i].unreadable().ok()) Fail("written, and it cannot be read: " + disks[i].unreadable().message());
    const server::ShardIdentity& identity = disks[i].identity();
    server::ShardIdentity& before = identities_[i];
    if (identity == before) continue;
    if (identity.incarnation < before.incarnation || identity.generation < before.generation ||
        identity.term < before.term || identity.newest_retained < before.newest_retained) {
      Fail("I7: a number on disk " + std::to_string(i) + " fell");
    }
    before = identity;
  }
}

void Checks::SeeManifest(const Coordinator& coordinator, const std::vector<SimDisk>& disks) {
  if (coordinator.manifests().empty()) return;
  const server::ManifestRecord& newest = coordinator.manifests().back();
  for (ShardIndex part = 0; part < newest.digests.size(); ++part) {
    if (!disks[part].Holds(newest.id, part)) {
      Fail("I6: part " + std::to_string(part) + " of the newest snapshot is gone");
    }
  }
}

void Checks::Take(std::vector<StepRecord> records) {
  for (StepRecord& record : records) {
    if (HasGlobalSteps(options_.mode)) {
      const auto [known, added] = losses_.try_emplace(record.step, record.loss);
      if (!added && known->second != record.loss) Fail("a replayed step has another loss");
    }
    outcome_->records.push_back(std::move(record));
  }
}

void Checks::EveryPushCountedOnce(const std::vector<const Shard*>& shards) {
  std::uint64_t wanted = 0;
  for (std::uint64_t step = 0; step < options_.steps; ++step) {
    for (SlotIndex slot = 0; slot < options_.slots; ++slot) {
      wanted += SamplesOf(options_, Step{step}, slot) > 0 ? 1 : 0;
    }
  }
  for (const Shard* shard : shards) {
    for (std::size_t index = 0; index < shard->store().size(); ++index) {
      if (shard->engine().updates(index) == wanted) continue;
      Fail("a block has " + std::to_string(shard->engine().updates(index)) + " updates, not " + std::to_string(wanted));
    }
  }
}

void Checks::Add(const monitoring::CoordinatorMetrics& m) {
  outcome_->counts["recoveries"] += m.recoveries.value();
  outcome_->counts["steps redone"] += m.steps_redone.value();
  outcome_->counts["steps skipped"] += m.steps_skipped.value();
  outcome_->counts["leases lost"] += m.leases_lost.value();
  outcome_->counts["slots of a slow worker given to another as well"] += m.slots_backed_up.value();
  outcome_->counts["joins refused"] += m.joins_refused.value();
  outcome_->counts["snapshots taken"] += m.snapshots_taken.value();
  outcome_->counts["snapshots given up"] += m.snapshots_failed.value();
  outcome_->counts["snapshots passed over"] += m.snapshots_passed_over.value();
  outcome_->counts["fallback to an older snapshot"] += m.snapshots_bad.value();
}

void Checks::Add(const monitoring::ShardMetrics& m) {
  outcome_->counts["pushes of another life refused"] += m.pushes_stale.value();
  outcome_->counts["equal pushes compared and ignored"] += m.pushes_duplicate.value();
  outcome_->counts["appends that failed"] += m.log_failures.value();
  outcome_->counts["records replayed from logs"] += m.log_replayed.value();
  outcome_->counts["reports dropped"] += m.reports_dropped.value();
  outcome_->counts["pushes ahead of the window or the step"] += m.pushes_busy.value();
}

std::string Checks::Describe(const Header& header) {
  return std::visit(
      [](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        std::string text = "message " + std::to_string(MessageTypes::IndexOf<Body>());
        if constexpr (requires { body.term; }) text += " term " + std::to_string(body.term.value);
        if constexpr (requires { body.generation; }) text += " generation " + std::to_string(body.generation.value);
        if constexpr (requires { body.incarnation; }) text += " incarnation " + std::to_string(body.incarnation.value);
        if constexpr (requires { body.version; }) text += " version " + std::to_string(body.version.value);
        if constexpr (requires { body.step; }) text += " step " + std::to_string(body.step.value);
        if constexpr (requires { body.block; }) text += " block " + std::to_string(body.block);
        return text;
      },
      header.any());
}

}  // namespace capstan::sim
