// PullQueue: answers the pulls of a shard's peers, parks those that wait for a version, and sends speculative blocks.
//
// Kind:   owned by the Shard.
// Limits: kWaitingMax parked pulls, one per peer. kSpeculativeInFlightMax speculative blocks in flight to each peer.
// Fails:  kStale: that version is gone; kBusy: it is too many versions away, or too many pulls wait.
// Why:    a worker that waits for the next version names blocks that it can buffer. The shard sends each block once per
//         attempt, as soon as it is prepared, so the blocks travel while the coordinator decides.
//
// The worker's next pull names the blocks that it still lacks. Published then names the attempt that became the
// version; blocks of other attempts are discarded. A repeated pull that crosses Published gets Published again, but no
// block twice. A worker asks for lost blocks with a pull that does not wait.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "common/wire/actor.h"
#include "common/wire/messages/pull.h"

namespace capstan::server {

struct ShardContext;
class StepEngine;

class PullQueue {
 public:
  static constexpr std::size_t kWaitingMax = 4096;
  static constexpr std::size_t kBlocksMax = 4096;            // blocks of one pull
  static constexpr std::size_t kSpeculativeNamedMax = 64;    // speculative blocks that one pull may name
  static constexpr std::size_t kSpeculativeInFlightMax = 2;  // to one worker

  PullQueue(const ShardContext& shard, const StepEngine& engine) : shard_(shard), engine_(engine) {}

  bool Waits(PeerId peer) const { return parked_.contains(peer); }
  // Answers or parks a checked pull. `readable`: whether weights may be read now.
  void Take(PeerId from, const Pull& pull, bool readable, Instant now, Outbox* out);
  // Answers the parked pulls that are ready.
  void AnswerReady(Instant now, Outbox* out);

  // Sends a block of the next version, which was just prepared, to workers that named it as one they can buffer.
  void OnPrepared(std::size_t index, Outbox* out);
  // Counts speculative blocks as not sent, because another attempt has prepared all blocks, and workers discard the old
  // ones.
  void OnRedone();
  void SendSpeculative(Outbox* out);
  // Forgets the pull of a worker that asked for a step's coverage. It has gone back to that step, dropped its
  // speculative blocks, and will pull again; or it pulls again at once.
  void Forget(PeerId peer);

  // Forgets which pulls were answered for the previous version. Call when the shard begins a step.
  void BeginStep() { answered_.clear(); }
  // Forgets everything; the peers will ask again.
  void Reset();

 private:
  struct Parked {
    Pull pull;
    Instant since{};
    std::vector<BlockIndex> sent;  // blocks of the current attempt that were sent speculatively
  };
  struct Answered {
    SessionId session;
    std::vector<BlockIndex> blocks;
  };

  void Park(PeerId from, const Pull& pull, Instant now, Outbox* out);
  void SendSpeculative(PeerId peer, Parked* parked, Outbox* out);
  void SendPrepared(PeerId peer, const Pull& pull, std::size_t index, Outbox* out) const;
  void AnswerParked(PeerId peer, const Parked& parked, Outbox* out);
  // Answers a pull that did not wait.
  void AnswerAtOnce(PeerId peer, const Pull& pull, Outbox* out);
  void Send(PeerId peer, const Pull& pull, Outbox* out) const;
  void SendPublished(PeerId peer, Outbox* out) const;
  void SendBlock(PeerId peer, const Pull& pull, BlockIndex block, Outbox* out) const;

  const ShardContext& shard_;
  const StepEngine& engine_;
  std::map<PeerId, Parked> parked_;
  std::vector<bool> named_;              // by index in the store: whether a pull since parked_ was empty names it
  std::map<PeerId, Answered> answered_;  // by peer that a parked pull of this version was answered for: its blocks
};

}  // namespace capstan::server
