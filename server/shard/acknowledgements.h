// Acknowledgements: a shard's answers that wait for the next Send(): which pushes, ends of slots and uploads it has.
//
// Kind:   owned by the Shard.
// Limits: Send() sends at most one Staged and one UploadAck for each pair of a peer and a step.
// Why:    one Staged message acknowledges a whole batch of pushes, and also carries the peer's credit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"
#include "common/wire/actor.h"

namespace capstan {
struct Staged;
}  // namespace capstan

namespace capstan::server {

struct ShardContext;

class Acknowledgements {
 public:
  Acknowledgements();
  ~Acknowledgements();

  // Returns the Staged message that the next Send() sends to this peer for this step (or sequence number). The caller
  // may fill it in. It is sent even if it names no push, because it carries the credit.
  Staged& For(PeerId peer, Step step);
  void AddPush(PeerId peer, Step step, BlockIndex block, Node node);
  // Adds a block that the peer uploaded: of the initial weights (step 0), or of the version that this step makes.
  void AddUpload(PeerId peer, Step step, BlockIndex block) { uploads_[{peer, step}].push_back(block); }

  // Notes that the peer pushes in the step under way. OfferCredit() adds a Staged for each such peer that was last sent
  // a smaller credit.
  void NotePusher(PeerId peer) { sent_credit_.try_emplace(peer, 0); }
  void OfferCredit(Step step, std::uint32_t credit);
  // Forgets which peers pushed in the previous step. Call when the shard begins a new step.
  void BeginStep() { sent_credit_.clear(); }

  // Calls `fill` for each answer that is `full`. Call it before Send(): so a peer that asks again and again costs one
  // answer a batch.
  void EachFull(const std::function<void(Step, Staged*)>& fill);
  // Sends all acknowledgements. With `steps_pass`, a Staged for an earlier step than the shard's has `passed` set.
  void Send(const ShardContext& shard, std::uint32_t credit, bool steps_pass, Outbox* out);
  // Forgets everything; the peers will ask again.
  void Reset();

 private:
  using Key = std::pair<PeerId, Step>;

  std::map<Key, std::unique_ptr<Staged>> pushes_;
  std::map<Key, std::vector<BlockIndex>> uploads_;
  std::map<PeerId, std::uint32_t> sent_credit_;  // by peer that pushed in this step: the credit last sent to it
};

}  // namespace capstan::server
