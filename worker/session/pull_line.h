// PullLine: a session's pull of a version from one shard, and the pace of the weights that arrive.
//
// Kind:   owned by a ShardLink; part of Session's core. `index` is a block's place among the shard's blocks.
// Limits: kWindow blocks requested at a time, within the line's window (LinePace). At first only kFirstPull, so that
//         the first layers' weights do not share the line.
#pragma once

#include <optional>
#include <vector>

#include "common/wire/line_pace.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "worker/session/shard_peer.h"
#include "worker/session/shard_pull.h"

namespace capstan::session {

class PullLine {
 public:
  static constexpr std::size_t kWindow = 16, kFirstPull = 2;

  // `shard` outlives this.
  PullLine(ShardPeer* shard, LinePace pace) : shard_(shard), pace_(pace) {}
  PullLine(const PullLine&) = delete;
  PullLine& operator=(const PullLine&) = delete;

  // Starts the pull of a version.
  void Begin(Version version, PullKind kind, Instant now, Outbox* out);
  // Ends the round's pull: drops speculative blocks and unanswered requests.
  void LetGo() { pull_.LetGo(); }

  // Returns the block's index. nullopt: the block is damaged (it is requested again), or already here.
  std::optional<std::size_t> IndexOf(const Weights& weights, const Slice& payload) const;
  // Notes that a block of the published version has arrived.
  void Arrive(std::size_t index, Instant now);
  // Takes a speculative block: keeps it until Publish, and requests more.
  void TakeSpeculative(std::size_t index, std::uint32_t attempt, const Slice& payload, Instant now, Outbox* out);
  // Returns the speculative blocks that are the published version's.
  std::vector<ShardPull::SpeculativeBlock> Publish(const Published& published, Instant now);
  void AskForBlocks(Instant now, Outbox* out);
  // Repeats the pull if it may be parked at the shard.
  void PullAgain(Instant now, Outbox* out) {
    if (pull_.waits()) SendPull(pull_.Asked(), now, out);
  }
  // Takes the shard's answer to a question, if the shard has no pull of ours: what was requested before the question is
  // lost.
  void SendLost(std::uint64_t question, Instant now, Outbox* out);

  LinePace& pace() { return pace_; }
  const LinePace& pace() const { return pace_; }
  bool complete() const { return pull_.complete(); }
  // Whether the shard owes an answer that it can give now.
  bool awaits() const { return pull_.awaits(); }

 private:
  std::vector<std::size_t> MoreBlocks(Instant now);
  void SendPull(const std::vector<std::size_t>& wanted, Instant now, Outbox* out);

  ShardPeer* const shard_;
  LinePace pace_;
  ShardPull pull_{&pace_};
  Version version_;
  std::uint64_t pulled_ = 0;  // message number of the newest pull
};

}  // namespace capstan::session
