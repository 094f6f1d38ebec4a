// Acknowledgements: the answers to pushes and uploads that a shard has taken and not yet acknowledged.
//
// Kind:   owned by the Shard.
// Limits: one message per peer and step between two calls of Send().
// Why:    a batch of pushes is acknowledged with one message, which also carries the peer's credit.
#pragma once

#include <cstdint>
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

  // Returns the next acknowledgement to this peer, for pushes of this step or sequence number; the caller may add to
  // it.
  Staged& For(PeerId peer, Step step);
  void AddPush(PeerId peer, Step step, BlockIndex block, Node node);
  // Adds a block that the peer uploaded: initial weights, or the version that this step makes.
  void AddUpload(PeerId peer, Step step, BlockIndex block) { uploads_[{peer, step}].push_back(block); }

  // Notes that the peer pushes in the step under way. OfferCredit tells such peers when the credit grows.
  void NotePusher(PeerId peer) { sent_credit_.try_emplace(peer, 0); }
  void OfferCredit(Step step, std::uint32_t credit);
  // Forgets which peers pushed in the previous step. Call when the shard begins a new one.
  void BeginStep() { sent_credit_.clear(); }

  // Sends all acknowledgements. `steps_pass`: those of earlier steps say that these steps are over.
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
