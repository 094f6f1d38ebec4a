// PullLine: a session's pull of a version from one shard, and how many of its blocks are requested at a time.
//
// Kind:   owned by a ShardLink; part of Session's core. `index` is a block's place among the shard's blocks.
// Limits: kWindow blocks requested at a time, within the line's window (LinePace). Until a block has arrived, only
//         kFirstPull, so that the first layers' weights come first.
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
  // `array`: as in a Pull.
  void Begin(Version version, PullKind kind, std::uint32_t array, Instant now, Outbox* out);
  // Ends the round's pull: drops speculative blocks and unanswered requests.
  void LetGo() { pull_.LetGo(); }

  // Returns the block's index if the block was asked for and is not here yet. `payload_bytes`: the payload's size. A
  // block that does not come, or not whole, stays missing, and is requested again later.
  std::optional<std::size_t> MissingIndex(const Weights& weights, std::size_t payload_bytes) const;
  // Notes that a block of the published version has arrived.
  void Arrive(std::size_t index, Instant now);
  // Keeps a speculative block until Publish(), and pulls again, so that the shard may send another.
  void TakeSpeculative(std::size_t index, std::uint32_t attempt, const Slice& payload, Instant now, Outbox* out);
  // Takes Published. Returns the speculative blocks here that belong to the published version.
  std::vector<ShardPull::SpeculativeBlock> Publish(const Published& published, Instant now);
  void AskForBlocks(Instant now, Outbox* out);
  // Repeats the pull if it may be parked at the shard.
  void PullAgain(Instant now, Outbox* out) {
    if (pull_.waits()) SendPull(pull_.Asked(), now, out);
  }
  // Call when the shard has answered message `question`, and has no pull of this session parked. Blocks that were
  // requested before that message and have not arrived are lost, and are requested again.
  void SendLost(std::uint64_t question, Instant now, Outbox* out);

  LinePace& pace() { return pace_; }
  const LinePace& pace() const { return pace_; }
  bool complete() const { return pull_.complete(); }
  // Whether anything is expected from the shard: requested blocks, or Published.
  bool awaits() const { return pull_.awaits(); }

 private:
  std::vector<std::size_t> MoreBlocks(Instant now);
  void SendPull(const std::vector<std::size_t>& wanted, Instant now, Outbox* out);

  ShardPeer* const shard_;
  LinePace pace_;
  ShardPull pull_{&pace_};
  Version version_;
  std::uint32_t array_ = 0;
  std::uint64_t pulled_ = 0;  // message number of the newest pull
};

}  // namespace capstan::session
