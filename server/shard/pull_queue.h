// PullQueue: answers the pulls that a shard gets, parks pulls of versions that do not exist yet, and sends speculative
// blocks.
//
// Kind:   owned by the Shard.
// Limits: kWaitingMax parked pulls, one per peer, and as many peers that are still to be sent blocks, kBlocksMax each.
//         A peer is sent what it has room for (ShardOptions::room). kSpeculativeInFlightMax speculative blocks are in
//         flight to each peer.
// Fails:  kStale: this shard does not have that version's blocks, or no longer; kBusy: the version is too far ahead, or
//         too many pulls wait.
// Why:    a worker that waits for the next version names blocks that it can buffer. The shard sends such a block once
//         per attempt, before the version is published, so the block travels while the coordinator decides.
//
// After each speculative block the worker pulls again, and names the blocks that it still lacks. The message Published
// then names the attempt that became the version, and the worker discards blocks of other attempts. A pull that crosses
// Published gets Published again, but no block twice. A worker that has Published pulls without `follows`, and so gets
// lost blocks again.
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
  static constexpr std::size_t kBlocksMax = 64;              // blocks of one pull
  static constexpr std::size_t kSpeculativeNamedMax = 64;    // speculative blocks that one pull may name
  static constexpr std::size_t kSpeculativeInFlightMax = 2;  // to one worker

  PullQueue(const ShardContext& shard, const StepEngine& engine) : shard_(shard), engine_(engine) {}

  bool Waits(PeerId peer) const { return parked_.contains(peer) || unsent_.contains(peer); }
  // Answers, parks or refuses a checked pull. `readable`: whether weights may be read now; if not, a pull that could be
  // answered is parked.
  void Take(PeerId from, const Pull& pull, bool readable, Instant now, Outbox* out);
  // Answers the parked pulls that are ready.
  void AnswerReady(Instant now, Outbox* out);
  // Sends blocks that their pullers had no room for, peer by peer. If their version is gone, says so instead.
  void SendUnsent(Outbox* out);
  bool answers_wait() const { return !unsent_.empty(); }

  // Call when a block of the next version was prepared. Sends it to the waiting workers that can buffer it.
  void OnPrepared(std::size_t index, Outbox* out);
  // Call when a new attempt has prepared all blocks. Speculative blocks of the old attempt count as not sent, because
  // workers discard them.
  void OnRedone();
  void SendSpeculative(Outbox* out);
  // Forgets a peer's pull that waits, and which blocks the peer was sent for the present version. Call when a worker
  // asks for a step's coverage: the worker may have dropped such blocks, and pulls again if it still waits.
  void Forget(PeerId peer);

  // Forgets which blocks were sent for the previous version. Call when the shard begins a step.
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

  void CountParked() const;
  void Park(PeerId from, const Pull& pull, Instant now, Outbox* out);
  void SendSpeculative(PeerId peer, Parked* parked, Outbox* out);
  void SendPrepared(PeerId peer, const Pull& pull, std::size_t index, Outbox* out) const;
  void AnswerParked(PeerId peer, const Parked& parked, Outbox* out);
  // Answers a pull that did not wait.
  void AnswerAtOnce(PeerId peer, const Pull& pull, Outbox* out);
  void Send(PeerId peer, const Pull& pull, Outbox* out);
  void SendBlocks(PeerId peer, const Pull& pull, Outbox* out);
  // Sends blocks of the pull as long as the peer has room, and removes them from it.
  void SendSome(PeerId peer, Pull* pull, Outbox* out) const;
  void SendPublished(PeerId peer, Outbox* out) const;
  void SendBlock(PeerId peer, const Pull& pull, BlockIndex block, Outbox* out) const;

  const ShardContext& shard_;
  const StepEngine& engine_;
  std::map<PeerId, Parked> parked_;
  std::vector<bool> named_;              // by index in the store: false: no parked pull names it as speculative
  std::map<PeerId, Pull> unsent_;        // with the blocks that the peer had no room for
  std::map<PeerId, Answered> answered_;  // peers whose parked pull of this version was answered: the blocks sent
};

}  // namespace capstan::server
