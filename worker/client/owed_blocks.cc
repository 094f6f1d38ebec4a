#include "worker/client/owed_blocks.h"

namespace capstan::client {

bool OwedBlocks::Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks) {
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

}  // namespace capstan::client
