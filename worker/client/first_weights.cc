#include "worker/client/first_weights.h"

namespace capstan::client {

void FirstWeights::Begin(Generation generation, const Catalog& catalog, const std::vector<ShardIndex>& placement) {
  generation_ = generation;
  owed_.clear();
  for (const Segment& segment : catalog.segments()) {
    if (catalog.tensors()[segment.tensor].init.kind != InitKind::kGiven) continue;
    owed_[placement[segment.block]].blocks.insert(segment.block);
  }
}

bool FirstWeights::Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks) {
  const auto owed = owed_.find(shard);
  if (owed == owed_.end()) return false;
  bool news = false;
  for (BlockIndex block : blocks) {
    news = owed->second.blocks.erase(block) > 0 || news;
    owed->second.sent.erase(block);
  }
  if (owed->second.blocks.empty()) owed_.erase(owed);
  return news;
}

std::vector<BlockIndex> FirstWeights::FirstOf(const std::set<BlockIndex>& blocks) {
  std::vector<BlockIndex> first;
  for (BlockIndex block : blocks) {
    if (first.size() == kWindow) break;
    first.push_back(block);
  }
  return first;
}

Slice FirstWeights::PayloadOf(const Block& block) const {
  return {weights_, weights_->data() + block.flat_offset * sizeof(float), block.count * sizeof(float)};
}

}  // namespace capstan::client
