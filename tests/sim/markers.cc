#include "tests/sim/markers.h"

#include <algorithm>
#include <type_traits>

#include "common/wire/messages.h"
#include "server/coordinator/coordinator.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "tests/sim/addresses.h"

namespace capstan::sim {

using server::Coordinator;
using server::Shard;

void Markers::SentByCoordinator(const Envelope& envelope, bool zombie) {
  if (zombie) return;
  if (const auto* view = envelope.message.header.As<View>(); view != nullptr && view->founder) {
    if (founder_generation_.value != 0 && founder_generation_ < view->generation) {
      Count("first weights asked for again in a new generation");
    }
    founder_generation_ = view->generation;
    founder_ = envelope.to.value;
  }
  if (const auto* commit = envelope.message.header.As<Commit>()) {
    const auto [first, added] = commit_terms_.try_emplace({commit->generation, commit->step}, commit->term);
    if (!added && first->second != commit->term) Count("Commit sent again by a new coordinator");
    redoing_ = false;
  }
  if (const auto* redo = envelope.message.header.As<Redo>()) {
    const auto [first, added] = redo_terms_.try_emplace({{redo->generation, redo->step}, redo->attempt}, redo->term);
    const bool again = !added && first->second != redo->term, with_ratios = !redo->trust_ratios.empty();
    if (again) Count("Redo decided again by a new coordinator");
    if (again && with_ratios) Count("trust ratios decided again by a new coordinator");
    if (redo->clip_value > 0) Count("elements clipped to the program's limit");
    if (with_ratios) Count(redo->clip < 1.0F ? "trust ratios of a clipped gradient" : "trust ratios without clipping");
    redoing_ = true;
  }
  if (envelope.message.header.Is<Pin>()) Count("snapshot asked for by Pin");
}

void Markers::ToCoordinator(const World& world, const Coordinator& receiver, const Message& message) {
  if (&receiver != world.coordinator) return;
  if (const auto* hello = message.header.As<Hello>()) {
    if (hello->term < receiver.term()) Count("Hello of an older term not believed");
    if (hello->shard < world.incarnations.size() && hello->incarnation < world.incarnations[hello->shard]) {
      Count("late Hello of a former life");
    }
  }
  if (const auto* prepared = message.header.As<Prepared>()) {
    if (prepared->generation < receiver.generation()) {
      Count("Prepared of an older generation ignored");
    } else if (prepared->step < receiver.step()) {
      Count("Prepared of a passed step answered with the Commit");
    }
    if (prepared->report.block_samples.empty()) Count("Prepared of a shard without blocks");
  }
  const auto* done = message.header.As<SnapshotDone>();
  if (done != nullptr && done->generation < receiver.generation()) Count("snapshot of an older generation reported");
}

void Markers::ToShard(const World& world, std::uint64_t, std::size_t index, const Message& message, bool from_zombie) {
  const Shard& shard = *world.shards[index];
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (requires { body.term; } && !std::is_same_v<Body, Hello>) {
          if (body.term < shard.term()) Count("message of an older term ignored by a shard");
          if (from_zombie) Count("message of a replaced coordinator reaches a shard");
        }
        if constexpr (std::is_same_v<Body, Reset>) {
          if (body.incarnation < world.incarnations[index]) {
            Count("delayed Reset for a former life ignored");
          } else if (body.generation < shard.generation()) {
            Count("delayed Reset of an older generation ignored");
          } else if (shard.serving() && body.generation > shard.generation() && body.timeline == shard.timeline()) {
            Count("shard went on in another generation");
          } else if (body.generation == shard.generation() && shard.serving()) {
            Count("Reset repeated to a shard that serves");
          }
        }
        if constexpr (std::is_same_v<Body, Commit>) {
          if (body.generation < shard.generation()) Count("Commit of a former generation ignored");
        }
        if constexpr (std::is_same_v<Body, LiveSessions>) {
          const std::uint64_t known = shard.sessions().sequence(body.term);
          if (body.sequence <= known) {
            Count("list of sessions older than the shard's ignored");
          } else if (body.base > known) {
            Count("list of sessions continues one that never came");
          } else if (body.base == 0 && known != 0) {
            Count("whole list of sessions sent again");
          }
        }
        if (!shard.serving()) return;
        if constexpr (std::is_same_v<Body, Push>) {
          if (shard.sessions().Find(body.session) == nullptr) Count("push of a session that the shard does not know");
        }
        if constexpr (std::is_same_v<Body, UploadBlock>) {
          const bool made = WorkersUpdate(options_.mode);
          if (body.generation < shard.generation()) {
            Count(made ? "block of an uploaded version of an older generation refused"
                       : "first weights of an older generation refused");
          }
          if (body.generation != shard.generation()) return;
          const std::uint64_t array = body.step.value * server::kBlockArraysMax + body.array;
          const auto [first, added] = assigned_.try_emplace({body.generation, body.block, array}, body.incarnation);
          if (added || first->second != body.incarnation) return;
          Count(made ? "block of an uploaded version uploaded twice" : "first weights of a block given twice");
        }
        if constexpr (std::is_same_v<Body, Push>) {
          if (body.generation < shard.generation()) Count("push of an older generation refused");
          if (body.generation != shard.generation()) return;
          if (body.samples == 0) Count("push of an empty slot");
          if (HasGlobalSteps(options_.mode) && body.step.value < shard.version().value) {
            Count("push of a passed step acknowledged");
          }
        }
        if constexpr (std::is_same_v<Body, CoverageQuery>) {
          const bool now = body.generation == shard.generation();
          if (now && !HasGlobalSteps(options_.mode)) Count("coverage asked by a new owner");
          if (now && body.step.value == shard.version().value && shard.engine().staged_bytes() > 0) {
            Count("coverage asked of a half-staged step");
          }
        }
        if constexpr (std::is_same_v<Body, Pull>) {
          if (body.generation != shard.generation()) return;
          if (shard.awaits_first_weights()) Count("pull waits for first weights");
          if (!HasGlobalSteps(options_.mode)) return;
          if (body.version < shard.version()) Count("pull of a version that is gone refused");
          if (body.version == shard.version().Next()) Count("pull waits for the next version");
        }
      },
      message.header.any());
}

void Markers::Staged(std::uint64_t from, std::size_t index, const Push& push) {
  Pushes& pushes = pushes_[from];
  if (pushes.generation != push.generation || pushes.step != push.step) pushes = {push.generation, push.step, {}};
  pushes.shards.insert(index);
  if (!HasGlobalSteps(options_.mode)) return;
  std::map<Node, std::uint64_t>& nodes = nodes_[{{push.generation, push.step}, push.block}];
  for (const auto& [node, worker] : nodes) {
    if (node != push.node && push.node.Contains(node)) Count("push of a node replaces what is held inside");
  }
  nodes.emplace(push.node, from);
}

void Markers::Repeated(std::uint64_t from, const Push& push) {
  if (!HasGlobalSteps(options_.mode)) return Count("push that was applied before acknowledged");
  const auto nodes = nodes_.find({{push.generation, push.step}, push.block});
  if (nodes == nodes_.end()) return;
  for (const auto& [node, worker] : nodes->second) {
    if (node == push.node && worker != from) Count("two workers pushed one node");
    if (node != push.node && node.Contains(push.node)) Count("push inside a node that is held");
  }
}

void Markers::SeeSpeculative(const World& world, std::uint64_t to, Generation generation, const Weights& weights) {
  if (!weights.speculative) return;
  if (weights.generation < generation) return Count("speculative weights of an older generation ignored");
  Count("speculative weights before their version is published");
  if (world.coordinator == nullptr) return;
  const auto [seen, added] = speculative_.try_emplace({to, weights.version}, Speculative{weights.attempt, {}});
  if (!added && seen->second.attempt < weights.attempt) Count("speculative weights of an attempt that was redone");
  seen->second = {weights.attempt, world.coordinator->term()};
}

void Markers::SeeSpeculative(const World& world, std::uint64_t to, Generation, const Published& published) {
  const auto seen = speculative_.find({to, published.version});
  if (seen == speculative_.end()) return;
  if (published.action == StepAction::kSkip) Count("speculative weights of a skipped step");
  if (published.attempt > seen->second.attempt) Count("speculative weights of an attempt that was redone");
  if (world.coordinator != nullptr && world.coordinator->term() > seen->second.term) {
    Count("speculative weights of a step that another coordinator decides");
  }
  speculative_.erase(seen);
}

void Markers::ToWorker(const World& world, std::uint64_t to, Generation generation, const Message& message) {
  std::visit(
      [&](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, View>) {
          Term& newest = view_terms_[to];
          if (body.term < newest) Count("view older than the worker's ignored");
          newest = std::max(newest, body.term);
        }
        if constexpr (std::is_same_v<Body, capstan::Staged>) {
          if (body.generation < generation) Count("acknowledgement of a former life ignored");
        }
        if constexpr (std::is_same_v<Body, Weights> || std::is_same_v<Body, Published>) {
          SeeSpeculative(world, to, generation, body);
        }
        if constexpr (std::is_same_v<Body, Weights>) {
          if (world.coordinator != nullptr && body.version.value < world.coordinator->step().value) {
            Count("weights of another version ignored");
          }
        }
        if constexpr (std::is_same_v<Body, Error>) {
          if (body.code == Code::kStale && body.message.starts_with("unknown session")) {
            Count("worker is told that its session is unknown");
          }
          if (body.message.starts_with("the log of this shard is behind"))
            Count("push refused while the log is behind");
          if (body.code == Code::kInvalid && body.message.starts_with("a sequence number")) {
            Count("push refused for a gap");
          }
          if (body.code != Code::kRefused) return;
          if (body.message.starts_with("another process joined")) Count("duplicate name took over");
          if (body.message.starts_with("a newer process has joined")) Count("older process of a name refused");
        }
      },
      message.header.any());
}

void Markers::WorkerDies(const World& world, std::uint64_t node, bool had_work) {
  if (world.coordinator == nullptr || world.coordinator->state() != Coordinator::State::kRunning) return;
  const StepName now{world.coordinator->generation(), world.coordinator->step()};
  worker_died_at_ = now;
  if (node == founder_ && world.coordinator->AwaitsInitialWeights()) {
    Count("founder dies before its first weights are kept");
  }
  if (shard_died_at_ == now) Count("shard and worker die in the same step");
  const auto pushes = pushes_.find(node);
  const bool pushed = pushes != pushes_.end() && StepName{pushes->second.generation, pushes->second.step} == now;
  if (!pushed && had_work) Count("worker dies with work, before any push");
  if (!pushed || world.coordinator->catalog() == nullptr) return;
  const std::size_t holders = std::min(world.shards.size(), world.coordinator->catalog()->blocks().size());
  Count(pushes->second.shards.size() < holders ? "worker dies after pushes to some of the shards"
                                               : "worker dies after pushes to every shard");
}

void Markers::WorkerStarts(const World& world) {
  const bool staged = std::any_of(world.shards.begin(), world.shards.end(), [](const Shard* shard) {
    return shard != nullptr && shard->serving() && shard->engine().staged_bytes() > 0;
  });
  if (staged) Count("worker joins in the middle of a step");
}

void Markers::ShardDies(const World& world, std::size_t index, bool writing) {
  const Shard& shard = *world.shards[index];
  if (writing) Count("snapshot half-written when its shard died");
  if (world.coordinator == nullptr) return;
  const Coordinator& coordinator = *world.coordinator;
  const bool current = shard.generation() == coordinator.generation();
  if (current && coordinator.state() == Coordinator::State::kResetting) {
    Count(shard.serving() ? "shard dies between ResetDone and RUNNING" : "shard dies while it loads");
  }
  if (current && coordinator.state() == Coordinator::State::kFinished && !coordinator.SnapshotsSettled()) {
    Count("shard dies after the last step, before the last snapshot");
  }
  if (!current || !shard.serving() || coordinator.state() != Coordinator::State::kRunning) return;
  if (shard.awaits_first_weights()) Count("shard dies with first weights that are not kept");
  if (shard.engine().prepared()) Count("shard dies between Prepared and Commit");
  if (!shard.engine().prepared() && shard.engine().staged_bytes() > 0) Count("shard dies with a half-staged step");
  shard_died_at_ = {coordinator.generation(), coordinator.step()};
  if (worker_died_at_ == shard_died_at_) Count("shard and worker die in the same step");
}

void Markers::CoordinatorDies(const World& world) {
  const Coordinator& coordinator = *world.coordinator;
  if (coordinator.state() == Coordinator::State::kResetting) Count("coordinator dies between RECOVER and RUNNING");
  if (coordinator.state() != Coordinator::State::kRunning) return;
  if (coordinator.AwaitsInitialWeights()) Count("coordinator dies before first weights are kept");
  std::uint64_t lowest = UINT64_MAX, highest = 0;
  for (const Shard* shard : world.shards) {
    if (shard == nullptr || !shard->serving() || shard->generation() != coordinator.generation()) continue;
    lowest = std::min(lowest, shard->version().value);
    highest = std::max(highest, shard->version().value);
  }
  if (lowest < highest) Count("shards at different steps when the coordinator dies");
  if (redoing_) Count("coordinator dies during a Redo");
  if (!coordinator.SnapshotsSettled()) Count("coordinator dies with a snapshot in flight");
}

void Markers::NoWorkers(const World& world) {
  const bool staged = std::any_of(world.shards.begin(), world.shards.end(), [](const Shard* shard) {
    return shard != nullptr && shard->serving() && shard->engine().staged_bytes() > 0;
  });
  if (staged) Count("all workers gone in the middle of a step");
}

void Markers::Parted(const std::set<std::uint64_t>& from, const std::set<std::uint64_t>& to, std::size_t shards) {
  for (const auto* side : {&from, &to}) {
    const auto* others = side == &from ? &to : &from;
    const auto shards_there = static_cast<std::size_t>(std::count_if(others->begin(), others->end(), IsShardAddress));
    for (std::uint64_t node : *side) {
      if (node < kWorkers) continue;
      if (others->contains(kCoordinator) && shards_there == 0) Count("worker cut from the coordinator alone");
      if (!others->contains(kCoordinator) && shards_there == 1 && shards > 1) Count("worker cut from one shard alone");
    }
    if (side->size() != 1) continue;
    if (IsShardAddress(*side->begin())) Count("shard cut from everybody");
    if (*side->begin() == kCoordinator) Count("coordinator cut from everybody");
  }
}

void Markers::DiskWorked(const World& world, const server::DiskResult& result) {
  if (std::holds_alternative<server::PeerRead>(result)) Count("blocks fetched from another shard");
  if (const auto* removed = std::get_if<server::PartsRemoved>(&result); removed != nullptr && world.coordinator) {
    const auto& manifests = world.coordinator->manifests();
    for (const SnapshotPart& part : removed->parts) {
      const bool newer = manifests.empty() || part.id > manifests.front().id;
      if (newer) Count("snapshot part without manifest deleted");
    }
  }
  const auto* written = std::get_if<server::SnapshotWritten>(&result);
  if (written != nullptr && redoing_) Count("snapshot written during a Redo");
}

void Markers::LogWorked(const server::LogResult& result) {
  if (std::holds_alternative<server::LogTrimmed>(result)) Count("log trimmed behind a snapshot");
  const auto* read = std::get_if<server::LogRead>(&result);
  if (read != nullptr && read->status.ok() && !read->piece.records.empty()) Count("shard came back from its log");
}

bool Markers::IsBeingLogged(const Shard& shard, Incarnation incarnation, const Message& message) {
  const auto* push = message.header.As<Push>();
  const bool ours =
      push != nullptr && shard.serving() && push->generation == shard.generation() && push->incarnation == incarnation;
  const server::PushJournal* const journal = shard.journal();
  return ours && journal != nullptr && journal->Has(SequenceOf(push->step), push->block, push->node.begin);
}

void Markers::Stage(const World& world) {
  if (world.coordinator == nullptr || world.coordinator->state() != Coordinator::State::kRunning) return;
  if (world.coordinator->term() == running_term_) return;
  running_term_ = world.coordinator->term();
  const auto [first, added] = ran_since_.try_emplace(world.coordinator->generation(), running_term_);
  if (!added) Count("coordinator resumed a running generation");
}

}  // namespace capstan::sim
