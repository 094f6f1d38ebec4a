#include "worker/session/shard_link.h"

#include <utility>

namespace capstan::session {

void ShardLink::AskWhenDue(LinePace* pace, bool awaited, const Question& question, Instant now, Outbox* out) {
  if (!awaited) return pace->Rest();
  pace->Await(now);
  if (!pace->Due(now)) return;
  pace->Asked(now);
  CoverageQuery query = shard.QueryOf(question.step);
  std::map<Step, std::vector<StagedNode>> unanswered = up.Unanswered();
  if (question.coverage) {
    out->Send(shard.peer, query);
    if (unanswered.empty() && !question.any_ends) return;
  }
  query.question = ++shard.sent;
  if (unanswered.empty()) unanswered[up.StepWithoutPushes(question.step)];
  for (auto& [step, nodes] : unanswered) {
    query.step = step;
    query.nodes = std::move(nodes);
    out->Send(shard.peer, query);
  }
}

std::optional<ShardLinks::Unconnected> ShardLinks::Begin(const std::vector<ShardAddress>& shards,
                                                         const Options& options, const Connect& connect, Instant now) {
  by_peer_.clear();
  links_.clear();
  unstaged_ = 0;
  placement_ = PlaceBlocks(*context_.catalog, static_cast<std::uint32_t>(shards.size()));
  for (const ShardAddress& address : shards) {
    const Result<PeerId> peer = connect(address.endpoint);
    if (!peer.ok()) {
      return Unconnected{"shard " + std::to_string(address.shard) + " at " + address.endpoint, peer.status()};
    }
    ShardLink& link =
        links_
            .try_emplace(address.shard, ShardPeer{context_, address, *peer}, options.key ^ (2 * address.shard),
                         options.first_wait, options.make_credit(), &unstaged_)
            .first->second;
    by_peer_.emplace(*peer, &link);
    link.last_message = now;
  }
  for (BlockIndex block = 0; block < placement_.size(); ++block) {
    links_.at(placement_[block]).shard.blocks.push_back(block);
  }
  return std::nullopt;
}

std::vector<PeerId> ShardLinks::PeersNotIn(const std::vector<ShardAddress>& shards) const {
  std::vector<PeerId> peers;
  for (const auto& [index, link] : links_) {
    const bool stays = std::any_of(shards.begin(), shards.end(), [&own = link.shard](const ShardAddress& shard) {
      return shard.endpoint == own.address.endpoint;
    });
    if (!stays) peers.push_back(link.shard.peer);
  }
  return peers;
}

ShardLink* ShardLinks::Find(PeerId peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : found->second;
}

ShardLink* ShardLinks::OfBlock(BlockIndex block) {
  return block < placement_.size() ? &links_.at(placement_[block]) : nullptr;
}

std::size_t ShardLinks::unsent_pushes() const {
  std::size_t count = 0;
  for (const auto& [index, link] : links_) count += link.up.unsent_pushes();
  return count;
}

std::optional<PendingRound> ShardLinks::OldestPush() const {
  std::optional<PendingRound> oldest;
  for (const auto& [index, link] : links_) {
    const auto own = link.up.oldest();
    if (own && (!oldest || own->round < oldest->round)) oldest = own;
  }
  return oldest;
}

}  // namespace capstan::session
